/** Web pages in place of the requested content: captive portals and web servers answer everything with 200. */

/** How much is examined: more than what comes before the first element of a page. */
const HEAD_BYTES = 2048;

/** Whether these bytes begin as an HTML page does. */
export function isHtml(bytes: Uint8Array): boolean {
  const head = Buffer.from(bytes.subarray(0, HEAD_BYTES)).toString();
  return /^\uFEFF?(?:\s|<!--[^]*?-->|<\?xml[^>]*>)*<(?:!doctype\s+html|html|head|body)\b/i.test(head);
}
