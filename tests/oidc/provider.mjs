// A provider of OpenID Connect (panva's oidc-provider) on a port of the loopback, inside TLS, for
// web/e2e/oidc.test.ts. Usage: node provider.mjs CERTIFICATE KEY REDIRECT_URI CLIENT_SECRET
//
// Whoever signs in is whom they say: the name is the account, and "ops-..." is in the group ops. Its
// first line on standard output is its issuer. A line on standard input says what the ID tokens from
// then on are: right, or wrong in one way, signed by the provider's own key all the same.
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { createInterface } from 'node:readline';
import { decodeJwt, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import Provider from 'oidc-provider';

const [certificate, keyFile, redirect, secret] = process.argv.slice(2);
const jwk = {
  ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }),
  kid: 'the-key', use: 'sig', alg: 'RS256',
};
const signingKey = await importJWK(jwk, 'RS256');

let mode = 'right';
let last = '';
createInterface({ input: process.stdin }).on('line', (line) => {
  mode = line.trim();
  console.log(`mode ${mode}`);
});

async function spoilt(token) {
  const claims = decodeJwt(token);
  const sign = (changed) =>
    new SignJWT({ ...claims, ...changed }).setProtectedHeader({ alg: 'RS256', kid: jwk.kid }).sign(signingKey);
  const now = Math.floor(Date.now() / 1000);
  switch (mode) {
    case 'audience':
      return sign({ aud: 'another-client' });
    case 'expired':
      return sign({ iat: now, exp: now - 3600 });
    case 'unsigned':
      return new UnsecuredJWT(claims).encode();
    case 'shared-secret':
      return new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(secret.padEnd(32, '0')));
    case 'replayed':
      return last;
    default:
      last = token;
      return token;
  }
}

let handle = (_request, response) => response.writeHead(503).end();
const server = createServer(
  { cert: readFileSync(certificate), key: readFileSync(keyFile) },
  (request, response) => handle(request, response),
);
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `https://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'divvy',
    client_secret: secret,
    redirect_uris: [redirect],
    response_types: ['code'],
    grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
  }],
  jwks: { keys: [jwk] },
  cookies: { keys: ['of this run alone'] },
  pkce: { required: () => true, methods: ['S256'] },
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
  conformIdTokenClaims: false,
  scopes: ['openid', 'profile', 'groups'],
  claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: `account-of-${id}`, preferred_username: id, groups: id.startsWith('ops-') ? ['ops'] : ['users'] }),
  }),
});
provider.use(async (context, next) => {
  await next();
  if (context.path === '/token' && typeof context.body?.id_token === 'string') {
    context.body.id_token = await spoilt(context.body.id_token);
  }
});
handle = provider.callback();
console.log(issuer);
