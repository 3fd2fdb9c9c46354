import { hash } from 'node:crypto';

/**
 * Identifies the configuration that a baseline was made with. Included files do not count: changing one of them must
 * not cause a new baseline.
 */
export function configDigest({ text }: { readonly text: string | Uint8Array }): string {
  return hash('sha256', text);
}

/** Identifies the provider and the configuration text of a result: if either changes, a new baseline is needed. */
export function configurationId(provider: string, text: string): string {
  return `${provider}-${hash('sha256', text).slice(0, 32)}`;
}
