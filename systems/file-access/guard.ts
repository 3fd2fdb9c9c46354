/**
 * The guard of files in containers: what the rest of the program knows of it.
 *
 * @module
 */
import type { Guard } from '../../shared/guard/guard.ts';
import { kiveData, kivePolicies, kivePolicyType } from './api.ts';

export const fileAccess: Guard = {
  name: 'file-access',
  summary: 'tells who touches the files that a KivePolicy names',
  resources: [kivePolicies, kiveData],
  guarded: [kivePolicyType],
  needsContainers: true,
  directory: {
    name: 'spool',
    flags: '--spool <dir>',
    description: 'where alerts wait for their callbacks',
  },
  lease: 'kive',
  rights: {},
  status: async () => (await import('./status/section.ts')).fileAccessStatus,
  lines: async () => [(await import('./alert-line-kind.ts')).alertLines],
};
