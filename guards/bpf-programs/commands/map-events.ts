/** `rampart bpf map events`. */
import { clockTime, printable } from '../../../lib/output/printable.ts';
import { say, stopSignal } from '../../../lib/cli/process.ts';
import type { MapName } from '../kernel/running/kernel-map.ts';
import { type MapEvent, openEvents } from '../kernel/running/map-events.ts';
import type { MapEventsOptions } from './map-command.ts';
import { documentText } from '../../../lib/cli/document.ts';
import { place } from './print.ts';

/** While more output than this waits for its reader, events are skipped: programs may write faster than a terminal shows. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

/** Runs until the signal aborts, or for the requested number of events. @throws the error that ended the reading. */
export async function runEvents(name: MapName, options: MapEventsOptions): Promise<void> {
  const { signal } = stopSignal();
  const { promise: ended, resolve: end, reject: fail } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => end(), { once: true });
  let [left, skipped, lost] = [options.count ?? Infinity, 0, 0n];
  {
    using _events = openEvents(place(options), name, {
      force: options.force === true,
      type: options.type,
      onEvent: (event) => {
        if (left === 0) return;
        if (process.stdout.writableLength > MAX_WAITING_BYTES) skipped++;
        else show(event, options);
        if (--left === 0) end();
      },
      onLost: (count) => (lost += count),
      onError: fail,
    });
    await ended;
  }
  if (lost > 0n) say(`${lost} events were lost: the buffer of their CPU was full`);
  if (skipped > 0) say(`${skipped} events are not shown: the output was too slow`);
}

function show(event: MapEvent, { output }: MapEventsOptions): void {
  const { atMs, ...rest } = event;
  if (output !== 'pretty') {
    const value = { schema: 'rampart.dev/bpf-map-event/v1', time: new Date(atMs).toISOString(), ...rest };
    process.stdout.write(`${output === 'yaml' ? '---\n' : ''}${documentText(output, value)}`);
    return;
  }
  const { cpu, sizeBytes, data } = rest;
  const where = cpu === undefined ? '' : `  CPU ${cpu}`;
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  process.stdout.write(`${clockTime(atMs)}${where}  ${sizeBytes} B  ${printable(text)}\n`);
}
