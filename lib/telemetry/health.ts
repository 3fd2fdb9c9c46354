/** The health of a process: whether it is alive, and whether it is ready. */

/** Why a part is not well, or undefined when it is. Asked at each request: it has to be quick. */
export type Ask = () => string | undefined;

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
  readonly #alive = new Map<string, Ask>();
  readonly #ready = new Map<string, Ask>();

  /** A part that only a new process mends. Dispose what is returned when it is over. */
  alive(part: string, ask: Ask): Disposable {
    return add(this.#alive, part, ask);
  }

  /** A part that has to be there for the process to do its work. */
  ready(part: string, ask: Ask): Disposable {
    return add(this.#ready, part, ask);
  }

  /** Why one of these parts is not ready. One that is not there has not begun. */
  notReady(parts: Iterable<string>): string | undefined {
    for (const part of parts) {
      const ask = this.#ready.get(part);
      const problem = ask === undefined ? 'it has not begun yet' : problemOf(ask);
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

function add(parts: Map<string, Ask>, part: string, ask: Ask): Disposable {
  parts.set(part, ask);
  return {
    [Symbol.dispose]: () => {
      // Another of the same name may have taken its place.
      if (parts.get(part) === ask) parts.delete(part);
    },
  };
}

function answer(parts: ReadonlyMap<string, Ask>, yes: string, no: string): HealthAnswer {
  let ok = true;
  let text = '';
  for (const [part, ask] of parts) {
    const problem = problemOf(ask);
    if (problem !== undefined) ok = false;
    // A reason from outside may have several lines.
    text += problem === undefined ? `[+] ${part}\n` : `[-] ${part}: ${problem.replace(/\s*\n\s*/g, ' ')}\n`;
  }
  return { ok, text: `${text}${ok ? yes : no}\n` };
}

function problemOf(ask: Ask): string | undefined {
  try {
    return ask();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
