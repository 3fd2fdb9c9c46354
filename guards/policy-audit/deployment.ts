/** The permissions that deploy/ grants this guard. After a change: node scripts/manifests.ts --write */
import { type GuardRights, right } from '../../guard/guard.ts';
import { kubewardenTypes, policyGroup, policyServerType } from './api.ts';

const read = ['get', 'list', 'watch'] as const;
const apply = [...read, 'create', 'patch'] as const;
const policies = kubewardenTypes.map(({ plural }) => plural);
const kinds = [...policies, policyServerType.plural];
const reports = ['policyreports', 'clusterpolicyreports'];
const openReports = ['reports', 'clusterreports'];

export const rights: GuardRights = {
  operator: [
    right('*', ['*'], read, {
      why: 'Policies can apply to any kind. Unreadable kinds are skipped, and rampart status names them.',
    }),
    right(policyGroup, kinds, read, { why: 'Always needed.' }),
    right(policyGroup, ['policyservers'], ['patch'], {
      why: 'With a finalizer, so that webhooks are removed before their server.',
    }),
    right(policyGroup, policies, ['patch'], {
      why: "Removes finalizers of Kubewarden's controller from deleted policies.",
    }),
    right(
      policyGroup,
      [...kinds.map((one) => `${one}/status`), 'policyservers/finalizers'],
      ['patch', 'update'],
    ),
    right(
      'admissionregistration.k8s.io',
      ['validatingadmissionpolicies', 'validatingadmissionpolicybindings'],
      ['list', 'watch'],
      { why: 'They are audited too.' },
    ),
    right(
      'admissionregistration.k8s.io',
      ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'],
      [...apply, 'delete'],
      { why: 'One for each policy.' },
    ),
    right('authorization.k8s.io', ['subjectaccessreviews'], ['create'], {
      why: 'Policies check permissions: can_i, and authorizer in CEL.',
    }),
    right('wgpolicyk8s.io', reports, [...read, 'create', 'update', 'delete'], {
      why: 'Reports of the results.',
    }),
    right('openreports.io', openReports, [...read, 'create', 'update', 'delete']),
    right('', ['namespaces'], read),
    right('apiextensions.k8s.io', ['customresourcedefinitions'], ['list', 'watch'], {
      why: 'They determine which kinds are served.',
    }),
    right('apps', ['deployments'], apply, { inSystem: true, why: 'Policy servers.' }),
    right('', ['configmaps', 'services', 'secrets'], apply, {
      inSystem: true,
      why: 'The result of the last pass, for rampart status; policies, addresses and certificates of policy servers.',
    }),
    right('policy', ['poddisruptionbudgets'], [...apply, 'delete'], { inSystem: true }),
  ],
  viewer: [
    right(policyGroup, kinds, read),
    right('wgpolicyk8s.io', reports, read),
    right('openreports.io', openReports, read),
    right('', ['configmaps'], ['list'], { inSystem: true }),
  ],
};
