/** Renders only the metadata of objects (meta.k8s.io PartialObjectMetadata), and the metadata of lists. */
import type { ItemList } from '../verbs/request.ts';
import type { Format } from './format.ts';

/** JSON of the PartialObjectMetadata of an object, from the JSON of its metadata. */
export function partialMetadata(metadata: string, { metaVersion }: Pick<Format, 'metaVersion'>): string {
  return `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/${metaVersion}","metadata":${metadata}}`;
}

/** JSON of the ListMeta of a list. */
export function listMetadata(list: ItemList): string {
  return JSON.stringify({
    resourceVersion: String(list.version),
    continue: list.continue,
    remainingItemCount: list.remaining,
  });
}
