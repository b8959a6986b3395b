import { defineConfig } from 'vite';

// `npm run dev` shows the sources as they are edited, with the API of a daemon at DIVVY_API.
const api = process.env['DIVVY_API'] ?? 'http://127.0.0.1:8480';

export default defineConfig({
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2022',
    // The Content-Security-Policy allows no data: and no inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { '/v1': { target: api, changeOrigin: false } } },
});
