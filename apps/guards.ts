/** The list of guards. Everything that the program does for guards follows from it. */
import type { Guard } from '../shared/guard/guard.ts';
import { bpfPrograms } from '../systems/bpf-programs/guard.ts';
import { fileAccess } from '../systems/file-access/guard.ts';
import { fileIntegrity } from '../systems/file-integrity/guard.ts';
import { networkPolicy } from '../systems/network-policy/guard.ts';
import { policyAudit } from '../systems/policy-audit/guard.ts';

export const guards: readonly Guard[] = [fileAccess, fileIntegrity, networkPolicy, policyAudit, bpfPrograms];
