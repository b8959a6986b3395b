// Usage: node tools/pack.mjs DIST FOLDER
// Compresses the files that Vite made and writes them behind each other into FOLDER/console.pack,
// with a table of them in FOLDER/console_assets.inc (src/console/assets.cc). The same files give
// the same bytes.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { gzipSync } from 'node:zlib';

const types = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json',
  svg: 'image/svg+xml',
  webmanifest: 'application/manifest+json',
  woff2: 'font/woff2',
};

function list(folder, prefix = '/') {
  return readdirSync(folder)
    .sort()
    .flatMap((name) => {
      const path = join(folder, name);
      return statSync(path).isDirectory()
        ? list(path, posix.join(prefix, name) + '/')
        : [{ path: prefix + name, file: path }];
    });
}

const [dist, out] = process.argv.slice(2);
const files = list(dist);
files.sort((a, b) => (a.path === '/index.html' ? -1 : b.path === '/index.html' ? 1 : 0));
let offset = 0;
const rows = [];
const bodies = [];
for (const { path, file } of files) {
  const content = readFileSync(file);
  const body = gzipSync(content, { level: 9 });
  body[9] = 255; // The system that packed it is nobody's business, and would differ.
  const type = types[path.split('.').pop()];
  if (!type) throw new Error(`${path}: a file of an unknown kind`);
  const tag = createHash('sha256').update(content).digest('hex').slice(0, 16);
  rows.push(`    {"${path}", "${type}", "${tag}", ${offset}, ${body.length}},\n`);
  bodies.push(body);
  offset += body.length;
}
if (files[0]?.path !== '/index.html') throw new Error('there is no index.html');
mkdirSync(out, { recursive: true });
writeFileSync(join(out, 'console.pack'), Buffer.concat(bodies));
writeFileSync(join(out, 'console_assets.inc'), rows.join(''));
