import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** A random secret, in a form that URLs and cookies can contain. */
export function newSecret(bytes = 32): string {
  return randomBytes(bytes).toString('base64url');
}

/** Compares secrets in a time that does not depend on their content. */
export function isSame(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

/** All values of this name in a `Cookie` header: another server of the host may have set one too. */
export function cookiesIn(header = '', name: string): string[] {
  return header.split(';').flatMap((pair) => {
    const [of, value = ''] = pair.trim().split('=');
    return of === name ? [value] : [];
  });
}
