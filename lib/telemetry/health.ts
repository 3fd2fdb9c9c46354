/** The health of a process: whether it is alive, and whether it is ready. */

/** Returns why a part is not well; undefined if it is. Called at each request, so it must be quick. */
export type Ask = () => string | undefined;

interface Part {
  readonly problem: Ask;
  readonly remark?: Ask | undefined;
}

interface HealthAnswer {
  readonly ok: boolean;
  /** A line for each part, the last one for all. */
  readonly text: string;
}

/**
 * The parts of a process, each queried on request. Two questions are distinguished, as kubelet does
 * (kubernetes.io, "Liveness, Readiness, and Startup Probes"): alive (if not, only a new process helps) and
 * ready (if not, it waits for something).
 *
 * @example
 * const health = new Health();
 * using part = health.ready('pods', () => (pods.isSynced ? undefined : 'not listed yet'));
 * health.readiness(); // { ok: false, text: '[-] pods: not listed yet\nnot ready\n' }
 */
export class Health {
  readonly #alive = new Map<string, Part>();
  readonly #ready = new Map<string, Part>();

  /**
   * Registers a liveness check, for failures that only a restart repairs. Dispose the result when the
   * part ends.
   */
  alive(part: string, ask: Ask): Disposable {
    return add(this.#alive, part, { problem: ask });
  }

  /**
   * Registers a readiness check, for a part that the process needs to do its work. Dispose the result when the
   * part ends.
   *
   * @param remark - Returns what to add while the part is ready; undefined: nothing.
   */
  ready(part: string, ask: Ask, remark?: Ask): Disposable {
    return add(this.#ready, part, { problem: ask, remark });
  }

  /** Why one of these parts is not ready. A part that is not registered has not begun. */
  notReady(parts: Iterable<string>): string | undefined {
    for (const part of parts) {
      const asked = this.#ready.get(part);
      const problem = asked === undefined ? 'it has not begun yet' : answerOf(asked.problem);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  liveness(): HealthAnswer {
    return answer(this.#alive, 'ok', 'not alive');
  }

  readiness(): HealthAnswer {
    return answer(this.#ready, 'ready', 'not ready');
  }
}

function add(parts: Map<string, Part>, name: string, part: Part): Disposable {
  parts.set(name, part);
  return {
    [Symbol.dispose]: () => {
      // Another part of the same name may have taken its place.
      if (parts.get(name) === part) parts.delete(name);
    },
  };
}

function answer(parts: ReadonlyMap<string, Part>, yes: string, no: string): HealthAnswer {
  let ok = true;
  let text = '';
  for (const [name, part] of parts) {
    const problem = answerOf(part.problem);
    if (problem !== undefined) ok = false;
    const reported = problem ?? (part.remark && answerOf(part.remark));
    // A reason from outside may have several lines.
    const why = reported === undefined ? '' : `: ${reported.replace(/\s*\n\s*/g, ' ')}`;
    text += `[${problem === undefined ? '+' : '-'}] ${name}${why}\n`;
  }
  return { ok, text: `${text}${ok ? yes : no}\n` };
}

function answerOf(ask: Ask): string | undefined {
  try {
    return ask();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
