import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['dist', 'node_modules', 'src/api/schema.d.ts', '**/*.mjs', 'eslint.config.js'] },
  ...tseslint.configs.strictTypeChecked,
  { languageOptions: { parserOptions: { project: true, tsconfigRootDir: import.meta.dirname } } },
  {
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // Nothing that comes from outside becomes markup.
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: 'Text stays text: use textContent or JSX.' },
        { property: 'outerHTML', message: 'Text stays text: use textContent or JSX.' },
        { property: 'insertAdjacentHTML', message: 'Text stays text: use textContent or JSX.' },
      ],
      'no-restricted-syntax': [
        'error',
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: 'Text stays text.',
        },
      ],
    },
  },
);
