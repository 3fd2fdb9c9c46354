/** The Accept header (RFC 9110, section 12.5.1). */

export interface MediaRange {
  /** `application`, or `*`. */
  readonly type: string;
  /** `json`, or `*`. */
  readonly subtype: string;
  /** All parameters except `q`; names in lower case, values as sent. */
  readonly parameters: ReadonlyMap<string, string>;
}

/**
 * The media ranges of a header, the most preferred first: sorted by `q`, then named types before wildcards (as in
 * github.com/munnerz/goautoneg), then in the order sent. Ranges with `q=0` and invalid ones are omitted.
 */
export function parseAccept(header: string): readonly MediaRange[] {
  const ranges: { readonly range: MediaRange; readonly quality: number }[] = [];
  for (const text of header.split(',')) {
    const [media = '', ...rest] = text.split(';');
    const [type = '', subtype = '', extra] = media.trim().toLowerCase().split('/');
    if (type === '' || subtype === '' || extra !== undefined) continue;
    const parameters = new Map<string, string>();
    let quality = 1;
    for (const parameter of rest) {
      const equals = parameter.indexOf('=');
      if (equals < 0) continue;
      const name = parameter.slice(0, equals).trim().toLowerCase();
      const value = parameter
        .slice(equals + 1)
        .trim()
        .replace(/^"(.*)"$/, '$1');
      if (name === 'q') quality = qualityOf(value);
      else parameters.set(name, value);
    }
    if (quality > 0) ranges.push({ range: { type, subtype, parameters }, quality });
  }
  ranges.sort((a, b) => b.quality - a.quality || wildcards(a.range) - wildcards(b.range));
  return ranges.map(({ range }) => range);
}

export function matches(range: MediaRange, type: string, subtype: string): boolean {
  if (range.type === '*') return range.subtype === '*';
  return range.type === type && (range.subtype === subtype || range.subtype === '*');
}

function qualityOf(value: string): number {
  const quality = Number(value);
  return value !== '' && quality >= 0 && quality <= 1 ? quality : 1;
}

function wildcards({ type, subtype }: MediaRange): number {
  return Number(type === '*') + Number(subtype === '*');
}
