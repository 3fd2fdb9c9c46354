/** The policy of the demo: the sample of Kive's design document, byte for byte. */
import { readFileSync } from 'node:fs';

const sample = new URL('./kive-sample-policy.yaml', import.meta.url);

/** The sample, unchanged. */
export function samplePolicy(): string {
  return readFileSync(sample, 'utf8');
}

/** The sample with another callback, and nothing else changed. */
export function samplePolicyWithCallback(url: string): string {
  const text = samplePolicy();
  const lines = text.split('\n');
  const places = lines.flatMap((line, index) => (/^ *callback: /.test(line) ? [index] : []));
  const [place] = places;
  if (place === undefined || places.length > 1) throw new Error('the sample policy is to have one callback');
  return lines
    .with(
      place,
      (lines[place] ?? '').replace(/".*"$/, () => JSON.stringify(url)),
    )
    .join('\n');
}
