/** The list of guards. Everything that the program does for guards follows from it. */
import type { Guard } from '../guard/guard.ts';
import { bpfPrograms } from '../guards/bpf-programs/guard.ts';
import { fileAccess } from '../guards/file-access/guard.ts';
import { fileIntegrity } from '../guards/file-integrity/guard.ts';
import { networkPolicy } from '../guards/network-policy/guard.ts';
import { policyAudit } from '../guards/policy-audit/guard.ts';

export const guards: readonly Guard[] = [fileAccess, fileIntegrity, networkPolicy, policyAudit, bpfPrograms];
