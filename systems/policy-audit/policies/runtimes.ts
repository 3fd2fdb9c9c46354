/**
 * What runs policies of this process.
 *
 * @module
 */
import type { ClusterReader } from '../engine/cel/cluster.ts';
import { openEvaluator, type OpenEvaluatorOptions } from '../engine/open-evaluator.ts';
import type { Runtimes } from './open-policy.ts';

export interface RuntimesOptions extends Pick<OpenEvaluatorOptions, 'hostCalls' | 'modules'> {
  readonly cluster: ClusterReader;
}

export function runtimesOf({ modules, cluster, hostCalls }: RuntimesOptions): Runtimes {
  return {
    cluster,
    open: ({ program }, signal) => openEvaluator(program, { modules, hostCalls, cluster, signal }),
  };
}
