// Usage: node tools/make-types.mjs DOCUMENT
// Writes src/api/schema.d.ts, the types of the API, from its OpenAPI document (GET
// /v1/openapi.json). A test compares the file with the document of the real daemon.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

export async function typesOf(document) {
  return (
    '// Made by tools/make-types.mjs from the OpenAPI document of divvyd; not edited by hand.\n' +
    astToString(await openapiTS(document))
  );
}

if (process.argv[2] !== undefined) {
  const types = await typesOf(JSON.parse(readFileSync(process.argv[2], 'utf8')));
  writeFileSync(new URL('../src/api/schema.d.ts', import.meta.url), types);
}
