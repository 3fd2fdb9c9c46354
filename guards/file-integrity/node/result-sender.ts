/** Writes the results of one job to the API: only the latest, which is retried until the API accepts it, also after a restart. */
import { readFile, unlink } from 'node:fs/promises';
import { Backoff } from '../../../lib/time/backoff.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { failureLevels } from '../../../lib/kube/client/failure-level.ts';
import { configMaps, type OwnerReference } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { replaceFile } from '../database/replace-file.ts';
import type { SigningKey } from '../database/signature.ts';
import type { NodeResult } from '../results/node-result.ts';
import { resultConfigMap } from '../results/result-config-map.ts';
import { seal, unseal } from '../signed-notes/note-file.ts';

export interface ResultSenderOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly owner: OwnerReference;
  /** The file of a result that the API has not accepted yet. */
  readonly path: string;
  readonly logger: Logger;
  readonly onSent: (result: NodeResult) => void;
  /** Stops sending when it aborts; the next process sends what is left on disk. */
  readonly signal: AbortSignal;
}

/** Maximum length of a manager in managedFields (apimachinery, MaxFieldManagerLength). */
const maxManager = 128;
const backoffOptions = { baseMs: 500, maxMs: 30_000, jitter: 0.3 };
const purpose = 'result';

/** There is one for each job. */
export class ResultSender {
  readonly #options: ResultSenderOptions;
  readonly #fieldManager: string;
  readonly #level = failureLevels(systemClock);
  #waiting: NodeResult | undefined;
  #isSaved = false;
  #running: Promise<void> | undefined;
  /** Ends the wait for a retry: there is a newer result, and the API may be reachable again. */
  #hurry = new AbortController();

  constructor(options: ResultSenderOptions) {
    this.#options = options;
    this.#fieldManager = `rampart-file-integrity-${options.nodeName}`.slice(0, maxManager);
  }

  /** Whether there is a result that the API has not accepted yet. */
  get isPending(): boolean {
    return this.#waiting !== undefined;
  }

  /** Sends the pending result of an earlier process, and returns it. */
  async resume(key: SigningKey): Promise<NodeResult | undefined> {
    const text = await readFile(this.#options.path, 'utf8').catch(() => undefined);
    if (text === undefined) return undefined;
    const body = unseal(purpose, text, key);
    if (body === undefined) {
      this.#options.logger.warn({ path: this.#options.path }, 'discarding a queued result of another agent');
      return undefined;
    }
    const result = JSON.parse(body) as NodeResult;
    this.#isSaved = true;
    if (this.#waiting === undefined) this.#send(result);
    return result;
  }

  /**
   * Sends a result; it replaces one that is still waiting. With a key, it is kept on disk until it is sent, unless
   * writing it fails.
   */
  async send(result: NodeResult, key: SigningKey | undefined): Promise<void> {
    this.#send(result);
    if (key === undefined) return;
    try {
      const text = seal(purpose, JSON.stringify(result), key);
      await replaceFile(this.#options.path, async (file) => file.writeFile(text));
      this.#isSaved = true;
      // The result was sent while the file was written.
      if (this.#waiting === undefined) await this.#forget();
    } catch (err) {
      this.#options.logger.warn({ err }, 'a queued result could not be saved; a restart would lose it');
    }
  }

  /** Resolves when no request is running; soon after the signal aborts. */
  async ended(): Promise<void> {
    await this.#running;
  }

  #send(result: NodeResult): void {
    this.#waiting = result;
    this.#hurry.abort();
    this.#hurry = new AbortController();
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
  }

  async #run(): Promise<void> {
    const { client, owner, signal, logger, onSent } = this.#options;
    const backoff = new Backoff(backoffOptions);
    for (let result = this.#waiting; result !== undefined && !signal.aborted; result = this.#waiting) {
      try {
        const configMap = resultConfigMap(result, owner);
        await client.apply(configMaps, configMap, { fieldManager: this.#fieldManager, force: true, signal });
        if (this.#waiting === result) this.#waiting = undefined;
        backoff.reset();
        onSent(result);
        if (this.#waiting === undefined && this.#isSaved) await this.#forget();
      } catch (err) {
        if (signal.aborted) return;
        logger[this.#level(err, backoff.attempts)]({ err }, 'cannot write a result yet; retrying');
        const wait = AbortSignal.any([signal, this.#hurry.signal]);
        await sleep(systemClock, backoff.nextMs(), wait).catch(() => undefined);
      }
    }
  }

  async #forget(): Promise<void> {
    this.#isSaved = false;
    await unlink(this.#options.path).catch(() => undefined);
  }
}
