/**
 * Times as the API writes them.
 *
 * @module
 */

/** `metav1.Time`: RFC 3339, whole seconds. */
export function apiTime(wallMs: number): string {
  return `${new Date(wallMs).toISOString().slice(0, '2026-11-21T10:00:00'.length)}Z`;
}

/** `metav1.MicroTime`: RFC 3339 with six digits. */
export function apiMicroTime(wallMs: number): string {
  return new Date(wallMs).toISOString().replace('Z', '000Z');
}
