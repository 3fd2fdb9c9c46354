/**
 * `/livez`, `/readyz` and the older `/healthz`, as in `k8s.io/apiserver/pkg/server/healthz`: open to everyone,
 * without the reason of a failed check.
 */
import { messageOf } from '../../errors/errors.ts';
import type { PlainAnswer } from './plain.ts';

export interface HealthCheck {
  /** Shown by `?verbose`, and part of the check's own path: `/readyz/NAME`. */
  readonly name: string;
  /** The endpoint: `livez` if a failure calls for a restart, `readyz` if requests should only wait. Default: both. */
  readonly of?: 'livez' | 'readyz';
  /** Returns why the check fails, for the log, or `undefined` if it passes. */
  readonly check: () => string | undefined;
}

const ping: HealthCheck = { name: 'ping', check: () => undefined };

export interface Health {
  /** `undefined` for paths that are not those of health checks. */
  answer(path: string, query: URLSearchParams): PlainAnswer | undefined;
}

/** @param onFailure gets the reason, which the client does not see. */
export function createHealth(
  checks: readonly HealthCheck[],
  onFailure: (check: string, reason: string) => void,
): Health {
  const all = [ping, ...checks];
  return {
    answer(path, query) {
      const [, root = '', name] = path.split('/', 3);
      if (root !== 'livez' && root !== 'readyz' && root !== 'healthz') return undefined;
      const asked = all.filter((check) => root === 'healthz' || check.of === undefined || check.of === root);
      if (name === undefined || name === '') return answerAll(root, asked, query);
      const one = asked.find((check) => check.name === name);
      if (one === undefined || path !== `/${root}/${name}`) return undefined;
      const reason = reasonOf(one, onFailure);
      return reason === undefined ? text(200, 'ok') : text(500, 'internal server error: reason withheld\n');
    },
  };

  function answerAll(root: string, asked: readonly HealthCheck[], query: URLSearchParams): PlainAnswer {
    const excluded = new Set(query.getAll('exclude'));
    const lines: string[] = [];
    let failed = false;
    for (const check of asked) {
      if (excluded.delete(check.name)) lines.push(`[+]${check.name} excluded: ok`);
      else if (reasonOf(check, onFailure) === undefined) lines.push(`[+]${check.name} ok`);
      else {
        failed = true;
        lines.push(`[-]${check.name} failed: reason withheld`);
      }
    }
    if (excluded.size > 0)
      lines.push('warn: some health checks cannot be excluded: there are no such checks');
    if (failed) return text(500, `${lines.join('\n')}\n${root} check failed\n`);
    return text(200, query.has('verbose') ? `${lines.join('\n')}\n${root} check passed\n` : 'ok');
  }
}

function reasonOf(
  { name, check }: HealthCheck,
  onFailure: (check: string, reason: string) => void,
): string | undefined {
  let reason: string | undefined;
  try {
    reason = check();
  } catch (error) {
    reason = messageOf(error);
  }
  if (reason !== undefined) onFailure(name, reason);
  return reason;
}

function text(code: number, body: string): PlainAnswer {
  return {
    code,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' },
    body,
  };
}
