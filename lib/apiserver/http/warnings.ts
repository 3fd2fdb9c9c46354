/** Warning headers (RFC 7234, 5.5), which kubectl shows to its user. */

/** In characters, of all texts together: beyond it each one is cut (apiserver `filters/warning.go`). */
const maxTotal = 4096;
const maxCut = 256;

/** Each text once, in order, quoted. Too long ones are cut; what does not fit even then is left out. */
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
  // A header is bytes: node takes each character for one.
  return values.map((value) => Buffer.from(value, 'utf8').toString('latin1'));
}

function clean(text: string): string {
  return text.toWellFormed().replaceAll(/\p{Cc}/gu, ' ');
}
