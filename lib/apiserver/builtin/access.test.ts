import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { created, updated } from './builtin.fixture.ts';

const rbac = (kind: string, rest: string): string =>
  `{ apiVersion: rbac.authorization.k8s.io/v1, kind: ${kind}, metadata: { name: "x:y" }, ${rest} }`;

suite('RBAC', () => {
  test('roles', () => {
    assert.deepEqual(
      created(rbac('Role', 'rules: [{ apiGroups: [""], resources: [pods], verbs: [get] }]')).causes,
      [],
    );
    assert.deepEqual(created(rbac('Role', 'rules: null')).causes, []);
    assert.deepEqual(
      created(rbac('Role', 'rules: [{ apiGroups: [""], resources: [pods] }, { verbs: [get] }]')).causes,
      [
        'rules[0].verbs: Required value: verbs must contain at least one value',
        'rules[1].apiGroups: Required value: resource rules must supply at least one api group',
        'rules[1].resources: Required value: resource rules must supply at least one resource',
      ],
    );
    assert.deepEqual(created(rbac('Role', 'rules: [{ nonResourceURLs: [/a], verbs: [get] }]')).causes, [
      'rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs',
    ]);
    assert.deepEqual(
      created(rbac('ClusterRole', 'rules: [{ nonResourceURLs: [/a], verbs: [get] }]')).causes,
      [],
    );
  });

  test('bindings', () => {
    const first = created(
      rbac(
        'RoleBinding',
        'roleRef: { kind: Role, name: r }, subjects: [{ kind: User, name: u }, { kind: ServiceAccount, name: s, namespace: n }]',
      ),
    );
    assert.deepEqual(first.causes, []);
    assert.deepEqual(first.object['subjects'], [
      { apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'u' },
      { kind: 'ServiceAccount', name: 's', namespace: 'n' },
    ]);
    assert.deepEqual((first.object['roleRef'] as JsonObject)['apiGroup'], 'rbac.authorization.k8s.io');
    const { causes } = updated(first, (binding) => ((binding['roleRef'] as JsonObject)['name'] = 'other'));
    assert.deepEqual(causes, [
      'roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"other"}: cannot change roleRef',
    ]);
    assert.deepEqual(
      created(
        rbac(
          'ClusterRoleBinding',
          'roleRef: { kind: Role, name: r }, subjects: [{ kind: Robot, name: u }, { kind: ServiceAccount, name: s }]',
        ),
      ).causes,
      [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
        'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
        'subjects[1].namespace: Required value',
      ],
    );
    assert.deepEqual(created(rbac('RoleBinding', 'subjects: []')).causes, ['roleRef: Required value']);
  });
});

const admission = (kind: string, rest: string): string =>
  `{ apiVersion: admissionregistration.k8s.io/v1, kind: ${kind}, metadata: { name: x }, ${rest} }`;

suite('Admission', () => {
  const constraints =
    'matchConstraints: { resourceRules: [{ apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments] }] }';

  test('a policy', () => {
    const { object, causes, unknown } = created(
      admission(
        'ValidatingAdmissionPolicy',
        `spec: { ${constraints}, variables: [{ name: n, expression: "has(object.spec.replicas) ? object.spec.replicas : 1" }], validations: [{ expression: "variables.n <= 5 && object.metadata.?labels[?'a'].orValue('') != request.name" }] }`,
      ),
    );
    assert.deepEqual({ causes, unknown }, { causes: [], unknown: [] });
    const spec = object['spec'] as JsonObject;
    assert.equal(spec['failurePolicy'], 'Fail');
    assert.deepEqual(spec['matchConstraints'], {
      matchPolicy: 'Equivalent',
      namespaceSelector: {},
      objectSelector: {},
      resourceRules: [
        {
          apiGroups: ['apps'],
          apiVersions: ['v1'],
          operations: ['CREATE'],
          resources: ['deployments'],
          scope: '*',
        },
      ],
    });
  });

  test('a policy without rules, and one with invalid CEL', () => {
    assert.deepEqual(created(admission('ValidatingAdmissionPolicy', 'spec: {}')).causes, [
      'spec.matchConstraints: Required value',
      'spec.validations: Required value: validations or auditAnnotations must contain at least one item',
      'spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item',
    ]);
    const { causes } = created(
      admission(
        'ValidatingAdmissionPolicy',
        `spec: { ${constraints}, validations: [{ expression: "object.spec. <" }] }`,
      ),
    );
    assert.equal(causes.length, 1);
    assert.match(
      causes[0] ?? '',
      /^spec\.validations\[0\]\.expression: Invalid value: "object\.spec\. <": compilation failed: /,
    );
  });

  test('a binding', () => {
    const binding = (spec: string): string => admission('ValidatingAdmissionPolicyBinding', `spec: ${spec}`);
    assert.deepEqual(created(binding('{ policyName: p, validationActions: [Deny] }')).causes, []);
    assert.deepEqual(created(binding('{ policyName: p, validationActions: [Deny, Deny, Refuse] }')).causes, [
      'spec.validationActions[2]: Unsupported value: "Refuse": supported values: "Audit", "Deny", "Warn"',
      'spec.validationActions[1]: Duplicate value: "Deny"',
    ]);
    assert.deepEqual(created(binding('{ validationActions: [] }')).causes, [
      'spec.policyName: Required value',
      'spec.validationActions: Required value: at least one validation action is required',
    ]);
  });

  test('a policy that mutates, and its binding', () => {
    for (const version of ['v1beta1', 'v1alpha1']) {
      const of = (kind: string, spec: string) =>
        created(
          `{ apiVersion: admissionregistration.k8s.io/${version}, kind: ${kind}, metadata: { name: x }, spec: ${spec} }`,
        );
      const mutation = (parts: string): readonly string[] =>
        of(
          'MutatingAdmissionPolicy',
          `{ ${constraints}, reinvocationPolicy: Never, mutations: [{ ${parts} }] }`,
        ).causes;
      const { object, causes, unknown } = of(
        'MutatingAdmissionPolicy',
        `{ ${constraints}, reinvocationPolicy: IfNeeded, variables: [{ name: n, expression: "1" }],
           mutations: [{ patchType: JSONPatch, jsonPatch: { expression: "[]" } }, { patchType: ApplyConfiguration, applyConfiguration: { expression: "Object{}" } }] }`,
      );
      assert.deepEqual({ causes, unknown }, { causes: [], unknown: [] });
      const { failurePolicy, matchConstraints } = object['spec'] as {
        readonly failurePolicy: string;
        readonly matchConstraints: JsonObject;
      };
      assert.deepEqual([failurePolicy, matchConstraints['matchPolicy']], ['Fail', 'Equivalent']);
      assert.deepEqual(of('MutatingAdmissionPolicy', '{}').causes, [
        'spec.matchConstraints: Required value',
        'spec.mutations: Required value: mutations must contain at least one item',
        'spec.reinvocationPolicy: Required value',
      ]);
      assert.deepEqual(mutation('patchType: JSONPatch, applyConfiguration: { expression: "Object{}" }'), [
        'spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch',
        'spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch',
      ]);
      assert.deepEqual(mutation('patchType: other'), [
        'spec.mutations[0].patchType: Unsupported value: "other": supported values: "ApplyConfiguration", "JSONPatch"',
      ]);
      assert.deepEqual(mutation('patchType: JSONPatch, jsonPatch: { expression: " " }'), [
        'spec.mutations[0].jsonPatch.expression: Required value: expression is not specified',
      ]);
      assert.match(
        String(mutation('patchType: JSONPatch, jsonPatch: { expression: "[" }')),
        /^spec\.mutations\[0\]\.jsonPatch\.expression: Invalid value: "\[": compilation failed: /,
      );
      assert.deepEqual(
        of(
          'MutatingAdmissionPolicy',
          `{ ${constraints.replace('CREATE', 'DELETE')}, reinvocationPolicy: Often, mutations: [{ patchType: JSONPatch, jsonPatch: { expression: "[]" } }] }`,
        ).causes,
        [
          'spec.reinvocationPolicy: Unsupported value: "Often": supported values: "IfNeeded", "Never"',
          'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"',
        ],
      );
      assert.deepEqual(of('MutatingAdmissionPolicyBinding', '{ policyName: p }').causes, []);
      assert.deepEqual(of('MutatingAdmissionPolicyBinding', '{ paramRef: { name: x } }').causes, [
        'spec.policyName: Required value',
        'spec.paramRef.parameterNotFoundAction: Required value',
      ]);
    }
  });

  test('a webhook', () => {
    const webhook = (parts: string): string =>
      admission(
        'ValidatingWebhookConfiguration',
        `webhooks: [{ name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], ${parts} }]`,
      );
    const { object, causes } = created(webhook('clientConfig: { service: { name: s, namespace: n } }'));
    assert.deepEqual(causes, []);
    const [one] = object['webhooks'] as readonly JsonObject[];
    assert.equal(one?.['timeoutSeconds'], 10);
    assert.deepEqual(one?.['clientConfig'], { service: { name: 's', namespace: 'n', port: 443 } });
    const conditions = Array.from({ length: 65 }, (_, index) => `{ name: c${index}, expression: "true" }`);
    assert.deepEqual(
      created(webhook(`clientConfig: { url: "https://x" }, matchConditions: [${conditions.join()}]`)).causes,
      ['webhooks[0].matchConditions: Too many: 65: must have at most 64 items'],
    );
    assert.deepEqual(created(webhook('timeoutSeconds: 31, clientConfig: { url: "http://x" }')).causes, [
      'webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds',
      'webhooks[0].clientConfig.url: Invalid value: "http": \'https\' is the only allowed URL scheme; desired format: https://host[/path]',
    ]);
  });

  test('where a webhook is, and what it is asked about', () => {
    const causes = (more: string): readonly string[] =>
      created(
        admission(
          'ValidatingWebhookConfiguration',
          `webhooks: [{ name: a.b.c, sideEffects: None, ${more} }]`,
        ),
      ).causes.map((line) => line.replace('webhooks[0].', ''));
    const v1 = 'admissionReviewVersions: [v1]';
    const url = (text: string): string => `clientConfig: { url: "${text}" }`;
    assert.deepEqual(causes(`${v1}, ${url('https://u:p@x/y?a=b#c')}`), [
      'clientConfig.url: Invalid value: "u:p": user information is not permitted in the URL',
      'clientConfig.url: Invalid value: "c": fragments are not permitted in the URL',
      'clientConfig.url: Invalid value: "a=b": query parameters are not permitted in the URL',
    ]);
    assert.deepEqual(causes(`${v1}, ${url('https:///x')}`), [
      'clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]',
    ]);
    const service = '{ name: "", namespace: n, path: "/a//b", port: 70000 }';
    assert.deepEqual(causes(`${v1}, clientConfig: { service: ${service} }`), [
      'clientConfig.service.name: Required value',
      'clientConfig.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive',
      'clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty',
    ]);
    assert.match(
      causes(`admissionReviewVersions: [v1, v1, 1x], ${url('https://x')}`).join('\n'),
      /^admissionReviewVersions\[1\]: Invalid value: "v1": duplicate version\nadmissionReviewVersions\[2\]: Invalid value: "1x": a DNS-1035 label/,
    );
    const rule = (resources: string): readonly string[] =>
      causes(
        `${v1}, ${url('https://x')}, rules: [{ operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [${resources}] }]`,
      ).map((line) => line.replace(/^rules\[0\]\./, '').replace(/ Invalid value: .*?: if/, ' if'));
    assert.deepEqual(rule('pods, "pods/*", "*/scale"'), []);
    assert.deepEqual(rule('"*", pods'), [
      "resources: if '*' is present, must not specify other resources without subresources",
    ]);
    assert.deepEqual(rule('"pods/*", pods/status, "*/scale", a/scale'), [
      "resources[1]: if 'pods/*' is present, must not specify pods/status",
      "resources[3]: if '*/scale' is present, must not specify a/scale",
    ]);
    const condition = '{ name: "", expression: " " }, { expression: "true" }, { name: c }';
    assert.deepEqual(causes(`${v1}, ${url('https://x')}, matchConditions: [${condition}]`), [
      'matchConditions[1].name: Required value',
      'matchConditions[2].expression: Required value',
      'matchConditions[0].expression: Required value',
      'matchConditions[0].name: Required value',
    ]);
    assert.deepEqual(rule('"*/*", pods'), [
      "resources: if '*/*' is present, must not specify other resources",
    ]);
  });
});
