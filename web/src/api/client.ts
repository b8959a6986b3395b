// Requests to the API that served this page, and nowhere else.
import type { paths } from './schema';
import { dropKey, keepKey, noteLeaving, sessionHeader, sessionKey } from './session';

/** What was refused, in the words of the daemon. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** The daemon could not be reached. */
export class Unreachable extends Error {}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
/** Paths of the API that take a method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends object ? P : never;
}[keyof paths];

type Json<R> = R extends { content: { 'application/json': infer T } } ? T : unknown;
type Responses<O> = O extends { responses: infer R } ? R : never;
/** What a path answers when it works. */
export type AnswerOf<P extends keyof paths, M extends Method> =
  Responses<paths[P][M]> extends infer R
    ? R extends { 200: infer T }
      ? Json<T>
      : R extends { 201: infer T }
        ? Json<T>
        : never
    : never;
type BodyOf<P extends keyof paths, M extends Method> = paths[P][M] extends {
  requestBody?: { content: { 'application/json': infer B } };
}
  ? B
  : undefined;

export type Query = Record<string, string | number | boolean | undefined>;

export interface Options {
  /** What stands for the one in braces. */
  of?: string | number;
  query?: Query;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

function address(path: string, options: Options): string {
  const text = path.replace(/\{[^}]*\}/, () =>
    String(options.of ?? '')
      .split('/')
      .map(encodeURIComponent)
      .join('/'),
  );
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value !== undefined && value !== '') query.set(name, String(value));
  }
  const tail = query.toString();
  return tail === '' ? text : `${text}?${tail}`;
}

async function refusal(response: Response): Promise<Refusal> {
  let detail = `${response.status} ${response.statusText}`;
  try {
    const problem = (await response.json()) as { detail?: string };
    detail = problem.detail ?? detail;
  } catch {
    // Not every proxy on the way speaks JSON.
  }
  if (response.status === 401) dropKey();
  return new Refusal(response.status, detail);
}

/** The answer as it comes. Throws Refusal or Unreachable. */
export async function open(
  method: Method,
  path: string,
  options: Options = {},
  init: { body?: unknown } = {},
): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  const key = sessionKey();
  if (key !== '') headers[sessionHeader] = key;
  if (init.body !== undefined) headers['content-type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(address(path, options), {
      method: method.toUpperCase(),
      headers,
      body: init.body === undefined ? null : JSON.stringify(init.body),
      signal: options.signal ?? null,
      cache: 'no-store',
      credentials: 'same-origin',
      redirect: 'error',
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Unreachable('the daemon does not answer');
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function get<P extends PathOf<'get'>>(
  path: P,
  options: Options = {},
): Promise<AnswerOf<P, 'get'>> {
  return (await (await open('get', path, options)).json()) as AnswerOf<P, 'get'>;
}

async function send<P extends keyof paths, M extends Method>(
  method: M,
  path: P,
  body: BodyOf<P, M>,
  options: Options,
): Promise<AnswerOf<P, M>> {
  const response = await open(method, path, options, { body });
  return (await response.json()) as AnswerOf<P, M>;
}

export const post = <P extends PathOf<'post'>>(path: P, body: BodyOf<P, 'post'>, o: Options = {}) =>
  send('post', path, body, o);
export const put = <P extends PathOf<'put'>>(path: P, body: BodyOf<P, 'put'>, o: Options = {}) =>
  send('put', path, body, o);
export const patch = <P extends PathOf<'patch'>>(
  path: P,
  body: BodyOf<P, 'patch'>,
  o: Options = {},
) => send('patch', path, body, o);
export const remove = <P extends PathOf<'delete'>>(path: P, o: Options = {}) =>
  send('delete', path, undefined as BodyOf<P, 'delete'>, o);

/** Signs in; the token itself is not kept. */
export async function signIn(token: string): Promise<void> {
  const response = await open('post', '/v1/session', {
    headers: { authorization: `Bearer ${token}` },
  });
  const session = (await response.json()) as { key: string };
  keepKey(session.key);
}

/** Leaves for the provider, which sends the browser back. */
export async function signInWithProvider(): Promise<void> {
  const response = await open('post', '/v1/sign-in/browser');
  const { address } = (await response.json()) as { address: string };
  noteLeaving();
  location.assign(address);
}

export async function signOut(): Promise<void> {
  try {
    await open('delete', '/v1/session');
  } finally {
    dropKey();
  }
}
