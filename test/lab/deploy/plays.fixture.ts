/** Each guard's scene on the stage. */
import { bpfPrograms } from './bpf-programs.fixture.ts';
import { fileAccess, fileIntegrity, networkPolicy, type Play, policyAudit } from './stage.fixture.ts';

/** By the name of the guard. */
export const plays: Readonly<Record<string, Play>> = {
  'file-access': fileAccess,
  'file-integrity': fileIntegrity,
  'network-policy': networkPolicy,
  'policy-audit': policyAudit,
  'bpf-programs': bpfPrograms,
};
