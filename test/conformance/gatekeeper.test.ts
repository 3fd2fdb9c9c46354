/**
 * Templates in CEL as Gatekeeper generates ValidatingAdmissionPolicies from them: with the variables `params`
 * and `anyObject`. They behave like the templates of its library
 * (https://github.com/open-policy-agent/gatekeeper-library), written anew.
 */
import type { JsonObject } from '../../guards/policy-audit/engine/evaluator.ts';
import { allowed, denied, judgePolicy, pod, type PolicyCase } from './policy-case.fixture.ts';
import { conformance, nothingHere, type Section } from './section.fixture.ts';

interface Template {
  readonly params?: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly expression: string;
  readonly message: string;
}

const all = {
  containers: 'has(variables.anyObject.spec.containers) ? variables.anyObject.spec.containers : []',
  initContainers:
    'has(variables.anyObject.spec.initContainers) ? variables.anyObject.spec.initContainers : []',
};

/** As generated: the parameters of the constraint, and the object that is there. */
function template({ params = '{}', variables = {}, expression, message }: Template): JsonObject {
  const given = {
    params,
    anyObject: 'has(request.operation) && request.operation == "DELETE" ? oldObject : object',
  };
  return {
    variables: Object.entries({ ...given, ...variables }).map(([name, source]) => ({
      name,
      expression: source,
    })),
    validations: [{ expression, messageExpression: message }],
  };
}

const labels = (params: string): JsonObject =>
  template({
    params,
    expression:
      'variables.params.labels.all(l, has(variables.anyObject.metadata.labels) && l.key in variables.anyObject.metadata.labels && (!has(l.allowedRegex) || string(variables.anyObject.metadata.labels[l.key]).matches(string(l.allowedRegex))))',
    message: "'needs ' + variables.params.labels.map(l, l.key).join(', ')",
  });
const privileged = template({
  params: "dyn({'exemptImages': ['registry.example/ok*']})",
  variables: {
    ...all,
    exempt:
      "(variables.containers + variables.initContainers).filter(c, variables.params.exemptImages.exists(e, e.endsWith('*') ? string(c.image).startsWith(string(e).replace('*', '')) : c.image == e)).map(c, c.image)",
    bad: '(variables.containers + variables.initContainers).filter(c, !(c.image in variables.exempt) && has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged)',
  },
  expression: '(has(request.operation) && request.operation == "UPDATE") || size(variables.bad) == 0',
  message: "variables.bad.map(c, 'privileged: ' + c.name).join(', ')",
});
const capabilities = template({
  params: "{'requiredDrop': ['ALL'], 'allowed': ['CHOWN']}",
  variables: {
    ...all,
    bad: '(variables.containers + variables.initContainers).filter(c, !(has(c.securityContext) && has(c.securityContext.capabilities) && has(c.securityContext.capabilities.drop) && variables.params.requiredDrop.all(r, c.securityContext.capabilities.drop.exists(d, d == r))) || c.?securityContext.?capabilities.?add.orValue([]).exists(a, !(a in variables.params.allowed)))',
  },
  expression: 'size(variables.bad) == 0',
  message: "'capabilities of ' + variables.bad.map(c, string(c.name)).join(', ')",
});
const ports = template({
  params: "{'min': 80, 'max': 9000}",
  variables: {
    ...all,
    bad: '(variables.containers + variables.initContainers).filter(c, has(c.ports) && c.ports.exists(p, has(p.hostPort) && (p.hostPort < variables.params.min || p.hostPort > variables.params.max)))',
  },
  expression:
    'size(variables.bad) == 0 && !(has(variables.anyObject.spec.hostNetwork) && variables.anyObject.spec.hostNetwork)',
  message: "'host network or port in ' + string(variables.anyObject.metadata.name)",
});
const sysctls = template({
  params: "{'forbidden': ['kernel.*', 'net.core.somaxconn']}",
  variables: {
    sysctls:
      '!has(variables.anyObject.spec.securityContext) ? [] : !has(variables.anyObject.spec.securityContext.sysctls) ? [] : variables.anyObject.spec.securityContext.sysctls',
    bad: "variables.sysctls.filter(s, variables.params.forbidden.exists(f, f.endsWith('*') ? string(s.name).startsWith(f.substring(0, f.size() - 1)) : s.name == f)).map(s, s.name)",
  },
  expression: 'size(variables.bad) == 0',
  message: "'forbidden sysctls: ' + variables.bad.map(n, string(n)).join(', ')",
});
const seccomp = template({
  params: "{'allowed': ['RuntimeDefault', 'Localhost']}",
  variables: {
    ...all,
    ofPod: "variables.anyObject.spec.?securityContext.?seccompProfile.?type.orValue('')",
    bad: "variables.containers.filter(c, !(c.?securityContext.?seccompProfile.?type.orValue(variables.ofPod) in variables.params.allowed)).map(c, 'seccomp of ' + c.name)",
  },
  expression: 'size(variables.bad) == 0',
  message: "variables.bad.join('; ')",
});

const container = (more: JsonObject = {}): JsonObject => ({
  name: 'web',
  image: 'registry.example/web:1',
  ...more,
});
const withContext = (securityContext: JsonObject): JsonObject =>
  pod({ containers: [container({ securityContext })] });

const sections: readonly Section<PolicyCase>[] = [
  {
    name: 'general',
    cases: [
      {
        settings: labels("{'labels': [dyn({'key': 'team'})]}"),
        object: pod({}, { labels: { team: 'a' } }),
        expected: allowed,
      },
      {
        settings: labels("{'labels': [dyn({'key': 'team'})]}"),
        object: pod({}, { labels: { other: 'a' } }),
        expected: denied('needs team'),
      },
      {
        settings: labels("{'labels': [dyn({'key': 'team'})]}"),
        object: pod({}),
        expected: denied('needs team'),
      },
      {
        settings: labels("{'labels': [{'key': 'team', 'allowedRegex': '^[a-z]+[.]example$'}]}"),
        object: pod({}, { labels: { team: 'me.example' } }),
        expected: allowed,
      },
      {
        settings: labels("{'labels': [{'key': 'team', 'allowedRegex': '^[a-z]+[.]example$'}]}"),
        object: pod({}, { labels: { team: 'me' } }),
        expected: denied('needs team'),
      },
      {
        settings: labels("{'labels': [dyn({'key': 'team'})]}"),
        object: null,
        request: { operation: 'DELETE', oldObject: pod({}, { labels: { team: 'a' } }) },
        expected: allowed,
      },
    ],
  },
  {
    name: 'pod security',
    cases: [
      { settings: privileged, object: withContext({ privileged: false }), expected: allowed },
      {
        settings: privileged,
        object: withContext({ privileged: true }),
        expected: denied('privileged: web'),
      },
      {
        settings: privileged,
        object: withContext({ privileged: true }),
        request: { operation: 'UPDATE' },
        expected: allowed,
      },
      {
        settings: privileged,
        object: pod({
          containers: [container({ image: 'registry.example/ok:2', securityContext: { privileged: true } })],
        }),
        expected: allowed,
      },
      {
        settings: privileged,
        object: pod({
          containers: [container()],
          initContainers: [container({ name: 'init', securityContext: { privileged: true } })],
        }),
        expected: denied('privileged: init'),
      },
      {
        settings: capabilities,
        object: withContext({ capabilities: { drop: ['ALL'], add: ['CHOWN'] } }),
        expected: allowed,
      },
      {
        settings: capabilities,
        object: withContext({ capabilities: { drop: ['ALL'], add: ['NET_RAW'] } }),
        expected: denied('capabilities of web'),
      },
      {
        settings: capabilities,
        object: pod({ containers: [container()] }),
        expected: denied('capabilities of web'),
      },
      {
        settings: ports,
        object: pod({ containers: [container({ ports: [{ hostPort: 8080 }] })] }),
        expected: allowed,
      },
      {
        settings: ports,
        object: pod({ containers: [container({ ports: [{ containerPort: 1 }, { hostPort: 9001 }] })] }),
        expected: denied('host network or port in web'),
      },
      {
        settings: ports,
        object: pod({ hostNetwork: true, containers: [] }),
        expected: denied('host network or port in web'),
      },
      {
        settings: sysctls,
        object: pod({ securityContext: { sysctls: [{ name: 'net.ipv4.ip_forward' }] } }),
        expected: allowed,
      },
      {
        settings: sysctls,
        object: pod({
          securityContext: { sysctls: [{ name: 'kernel.msgmax' }, { name: 'net.core.somaxconn' }] },
        }),
        expected: denied('forbidden sysctls: kernel.msgmax, net.core.somaxconn'),
      },
      { settings: sysctls, object: pod({}), expected: allowed },
      {
        settings: seccomp,
        object: pod({
          securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
          containers: [container()],
        }),
        expected: allowed,
      },
      {
        settings: seccomp,
        object: withContext({ seccompProfile: { type: 'Unconfined' } }),
        expected: denied('seccomp of web'),
      },
      { settings: seccomp, object: pod({ containers: [container()] }), expected: denied('seccomp of web') },
    ],
    ...nothingHere(
      'templates in Rego',
      'they run as modules of WebAssembly; guards/policy-audit/engine/wasm judges their builtins',
    ),
  },
];

conformance('Gatekeeper', sections, judgePolicy({ dialect: 'validating-admission-policy' }));
