import { hash } from 'node:crypto';

/**
 * Tells whether a baseline was made with this configuration. Files that it includes are not part of it: changing one of
 * these must not cause a new baseline.
 */
export function configDigest({ text }: { readonly text: string | Uint8Array }): string {
  return hash('sha256', text);
}

/** Identifies the configuration of a result: another provider or text needs another baseline. */
export function configurationId(provider: string, text: string): string {
  return `${provider}-${hash('sha256', text).slice(0, 32)}`;
}
