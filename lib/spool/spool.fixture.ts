/** A spool with one queue, for tests, and what is in it. */
import { createHash } from 'node:crypto';

import type { QueueLog } from './queue-log.ts';
import type { StoredRecord } from './record.ts';
import type { QueueName } from './segment-header.ts';
import { openSpool, type Spool, type SpoolOptions } from './spool.ts';

export const name: QueueName = { kind: 'RAMPTEST', text: 'of tests' };

export class TestSpool implements AsyncDisposable {
  readonly spool: Spool;
  readonly queue: QueueLog;
  damagedFiles = 0;
  lostRecords = 0;

  constructor(directory: string, options: Partial<SpoolOptions> = {}) {
    this.spool = openSpool({
      directory,
      contents: 'records',
      keyOf: ({ kind, text }) =>
        kind === name.kind ? createHash('sha256').update(text).digest('hex').slice(0, 32) : undefined,
      maxBytes: 2 ** 30,
      maxQueueBytes: 2 ** 28,
      observer: {
        damaged: (lost) => {
          this.damagedFiles++;
          this.lostRecords += lost;
        },
        syncFailed: (error) => {
          throw error;
        },
      },
      ...options,
    });
    this.queue =
      [...this.spool.queues].find((queue) => queue.name.text === name.text) ?? this.spool.add(name);
  }

  /** @returns whether it was taken. */
  add(id: string, line = lineOf(id)): boolean {
    const record = this.spool.encode(id, line);
    return record !== undefined && this.spool.append(this.queue, record) === undefined;
  }

  /** All that is in it, `atOnce` records at a time. */
  take(atOnce = 1): StoredRecord[] {
    const taken: StoredRecord[] = [];
    for (let records; (records = this.queue.heads(atOnce, 2 ** 20)).length > 0;) {
      taken.push(...records);
      this.queue.pass(records.length);
    }
    return taken;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.spool[Symbol.asyncDispose]();
  }
}

/** A line of about 1 kB. */
export function lineOf(id: string): string {
  return JSON.stringify({ id, padding: 'x'.repeat(980) });
}
