/** PolicyException: exempts objects from policies, with an end and a reason. */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
import { list, object, oneOf, optional, string } from '../../lib/kube/crd/schema.ts';
import { selectorSchema } from './policy-schema.ts';

const globs = (description: string) =>
  list(string({ minLength: 1, maxLength: 253 }), { description, minItems: 1, maxItems: 128 });

export const exceptedKinds = [
  'AdmissionPolicy',
  'AdmissionPolicyGroup',
  'ClusterAdmissionPolicy',
  'ClusterAdmissionPolicyGroup',
  'MutatingAdmissionPolicy',
  'ValidatingAdmissionPolicy',
] as const;

export const policyExceptionSpec = object({
  policies: list(
    object({
      kind: oneOf(exceptedKinds, { description: 'The kind of the policy.' }),
      name: string('Its name.', { minLength: 1, maxLength: 253 }),
    }),
    { description: 'The policies that do not apply.', minItems: 1, maxItems: 64 },
  ),
  match: object('The objects that they do not apply to. All that is given must match.', {
    kinds: globs(
      "Kinds, with their group unless it is the core group: Pod, apps/Deployment, apps/*; '*' is all.",
    ),
    names: optional(globs('Names; `*` and `?` are wildcards.')),
    namespaces: optional(
      globs(
        'Namespaces, for an exception in rampart-system, which otherwise is for all namespaces and for cluster-scoped objects. Others are for their own namespace.',
      ),
    ),
    selector: optional(selectorSchema('Selects objects by their labels.')),
  }),
  until: optional(
    string('When it ends. Without it, it ends when it is deleted.', { format: 'date-time', maxLength: 64 }),
  ),
  reason: string('Why, for reports.', { minLength: 1, maxLength: 1024 }),
});

export const policyExceptionStatus = object({ conditions: optional(conditionList()) });
