/** AIDE's report of more findings than are kept: what is whole of it, as JSON again. */

/**
 * AIDE writes one member a line. Everything after the last whole one is dropped, and what is open is closed. Counts come
 * before the findings, so they are right.
 */
export function closeCutReport(start: Buffer): Buffer {
  const text = start.toString('latin1');
  // Where it is whole so far, and what is open there.
  let whole = 0;
  let wholeClosers = '';
  const closers: string[] = [];
  let inText = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (inText) {
      if (character === '\\') at++;
      else if (character === '"') inText = false;
      continue;
    }
    if (character === '"') inText = true;
    else if (character === '{') closers.push('}');
    else if (character === '[') closers.push(']');
    else if (character === '}' || character === ']') closers.pop();
    else if (character === ',') {
      whole = at;
      wholeClosers = closers.toReversed().join('');
    }
  }
  return Buffer.from(`${text.slice(0, whole)}${wholeClosers}`, 'latin1');
}
