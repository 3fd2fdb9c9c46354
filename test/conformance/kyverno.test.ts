/**
 * Expressions as Kyverno's policies have them, where they are those of ValidatingAdmissionPolicies: rules `validate.cel`, and what Kyverno generates
 * from ValidatingPolicies (https://github.com/kyverno/kyverno, `test/conformance`).
 */
import type { JsonObject } from '../../guards/policy-audit/engine/evaluator.ts';
import { allowed, denied, deployment, judgePolicy, pod, type PolicyCase } from './policy-case.fixture.ts';
import { conformance, type Section } from './section.fixture.ts';

const rule = (expression: string, message: string, more: JsonObject = {}): JsonObject => ({
  validations: [{ expression, message }],
  ...more,
});
const container = (image: string, more: JsonObject = {}): JsonObject => ({ name: 'web', image, ...more });

const hostPath = rule(
  '!has(object.spec.volumes) || object.spec.volumes.all(volume, !has(volume.hostPath))',
  'no hostPath',
);
const tagged = rule(
  "object.spec.containers.all(c, c.image.contains(':') && !c.image.endsWith(':latest'))",
  'a tag is required',
);
const everyTemplate = rule(
  "variables.all.all(c, has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits && quantity(c.resources.limits.memory).compareTo(quantity('1Gi')) <= 0)",
  'at most 1Gi',
  {
    variables: [
      {
        name: 'all',
        expression:
          'object.spec.template.spec.containers + object.spec.template.spec.?initContainers.orValue([])',
      },
    ],
  },
);
const forbiddenVerbs = rule(
  "!object.rules.exists(r, r.verbs.exists(v, v in ['*', 'escalate']) && (!has(r.resourceNames) || size(r.resourceNames) == 0))",
  'not these verbs',
);
const excepted = (condition: string): JsonObject => ({
  ...hostPath,
  matchConditions: [{ name: 'exclude', expression: condition }],
});
const within = (containers: readonly JsonObject[]): JsonObject =>
  deployment(1, { template: { spec: { containers } } });

const sections: readonly Section<PolicyCase>[] = [
  {
    name: 'rules of ClusterPolicies',
    cases: [
      { settings: hostPath, object: pod({ volumes: [{ name: 'a', emptyDir: {} }] }), expected: allowed },
      {
        settings: hostPath,
        object: pod({ volumes: [{ name: 'a', hostPath: { path: '/' } }] }),
        expected: denied('no hostPath'),
      },
      { settings: hostPath, object: pod({}), expected: allowed },
      { settings: tagged, object: pod({ containers: [container('web:1.2')] }), expected: allowed },
      {
        settings: tagged,
        object: pod({ containers: [container('web:1.2'), container('web')] }),
        expected: denied('a tag is required'),
      },
      {
        settings: everyTemplate,
        object: within([container('a', { resources: { limits: { memory: '512Mi' } } })]),
        expected: allowed,
      },
      {
        settings: everyTemplate,
        object: within([container('a', { resources: { limits: { memory: '2Gi' } } })]),
        expected: denied('at most 1Gi'),
      },
      { settings: everyTemplate, object: within([container('a')]), expected: denied('at most 1Gi') },
      { settings: forbiddenVerbs, object: { ...pod({}), rules: [{ verbs: ['get'] }] }, expected: allowed },
      {
        settings: forbiddenVerbs,
        object: { ...pod({}), rules: [{ verbs: ['get', 'escalate'] }] },
        expected: denied('not these verbs'),
      },
    ],
  },
  {
    name: 'conditions and exceptions',
    cases: [
      {
        settings: excepted("!(object.metadata.?labels['skip'].orValue('') == 'yes')"),
        object: pod({ volumes: [{ hostPath: {} }] }, { labels: { skip: 'yes' } }),
        expected: allowed,
      },
      {
        settings: excepted("!(object.metadata.?labels['skip'].orValue('') == 'yes')"),
        object: pod({ volumes: [{ hostPath: {} }] }),
        expected: denied('no hostPath'),
      },
      {
        settings: excepted("!request.userInfo.groups.exists(g, g == 'system:authenticated')"),
        object: pod({ volumes: [{ hostPath: {} }] }),
        expected: allowed,
      },
    ],
  },
  {
    name: 'libraries of Kyverno',
    notApplicable: [
      {
        what: 'resource, globalContext, http, image, images, user, json, yaml, hash, math, random, time, transform, x509',
        why: 'functions of policies.kyverno.io, a kind that Rampart does not evaluate',
      },
    ],
  },
];

conformance('Kyverno', sections, judgePolicy({ dialect: 'validating-admission-policy' }));
