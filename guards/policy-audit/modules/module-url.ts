/** Parses the `module` of a policy. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

export type ModuleUrl =
  | { readonly scheme: 'registry'; readonly reference: string }
  | { readonly scheme: 'http' | 'https'; readonly url: URL }
  | { readonly scheme: 'file'; readonly path: string };

/** @throws {RampartError} `INPUT` */
export function parseModuleUrl(text: string): ModuleUrl {
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, {
      what: `${JSON.stringify(text.slice(0, 200))} is not a policy module`,
      why,
      next: 'Use registry://host/repository:tag, https://host/policy.wasm or file:///path/policy.wasm',
    });
  const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):\/\//.exec(text)?.[1]?.toLowerCase() ?? 'registry';
  const rest = text.replace(/^[a-zA-Z][a-zA-Z0-9+.-]*:\/\//, '');
  if (rest === '') throw refuse('it names no module');
  if (scheme === 'registry') return { scheme, reference: rest };
  if (scheme === 'file') {
    if (!rest.startsWith('/')) throw refuse('the path of a file:// URL must begin with "/"');
    try {
      return { scheme, path: decodeURIComponent(rest) };
    } catch {
      throw refuse('its percent-encoding is malformed');
    }
  }
  if (scheme === 'https' || scheme === 'http') {
    if (!URL.canParse(text)) throw refuse('it is not a URL');
    const url = new URL(text);
    if (url.username !== '' || url.password !== '') throw refuse('a URL must not contain credentials');
    return { scheme, url };
  }
  throw refuse(`${scheme}:// is not supported`);
}
