import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** In a form for URLs and cookies. */
export function newSecret(bytes = 32): string {
  return randomBytes(bytes).toString('base64url');
}

/** Takes the same time whatever they have in common. */
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
