/** Warning headers (RFC 7234, 5.5), which kubectl shows to its user. */

/** Limit for all texts together, in characters; beyond it, each text is cut to `maxCut` (apiserver `filters/warning.go`). */
const maxTotal = 4096;
const maxCut = 256;

/** Each text once, in order, quoted. Texts are cut if they are too long together; those that still do not fit are left out. */
export function warningHeaders(warnings: readonly string[]): string[] {
  const texts = [...new Set(warnings)].filter((text) => text !== '').map(clean);
  const total = texts.reduce((sum, text) => sum + text.length, 0);
  const cut = total <= maxTotal ? texts : texts.map((text) => text.slice(0, maxCut).toWellFormed());
  const values: string[] = [];
  let length = 0;
  for (const text of cut) {
    length += text.length;
    if (length > maxTotal) break;
    values.push(`299 - "${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`);
  }
  // Node.js writes each character of a header as one byte, so the UTF-8 bytes are passed as characters.
  return values.map((value) => Buffer.from(value, 'utf8').toString('latin1'));
}

function clean(text: string): string {
  return text.toWellFormed().replaceAll(/\p{Cc}/gu, ' ');
}
