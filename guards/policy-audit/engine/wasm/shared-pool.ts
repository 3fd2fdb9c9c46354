/** One pool of threads for all policies of a process, while there are policies. */
import { PolicyPool } from './pool.ts';

let current: { readonly pool: PolicyPool; users: number } | undefined;

/** Whoever takes it releases it, once. */
export function sharedPool(): { readonly pool: PolicyPool; release(): Promise<void> } {
  const own = (current ??= { pool: new PolicyPool(), users: 0 });
  own.users++;
  return {
    pool: own.pool,
    async release() {
      if (--own.users > 0) return;
      if (current === own) current = undefined;
      await own.pool[Symbol.asyncDispose]();
    },
  };
}
