import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { apiVersionOf, allVerbs, type Resource } from '../resources/resource.ts';
import { isObject } from '../../json/json.ts';
import { builtinResources, customResourceDefinitions } from './builtin.ts';
import { builtinDefinitions } from './definitions.ts';
import { nameOfRef } from './facts/names.ts';

/**
 * The output of `kubectl api-resources` for Kubernetes 1.35, for the served kinds: name, short names,
 * apiVersion, namespaced, kind, categories; and their subresources. MutatingAdmissionPolicies are off there
 * unless an administrator serves their versions.
 */
const expected = `
configmaps                        cm          v1                              true   ConfigMap
endpoints                         ep          v1                              true   Endpoints
events                            ev          v1                              true   Event
events                            ev          events.k8s.io/v1                true   Event
limitranges                       limits      v1                              true   LimitRange
namespaces                        ns          v1                              false  Namespace                         -    finalize,status
nodes                             no          v1                              false  Node                              -    status
persistentvolumeclaims            pvc         v1                              true   PersistentVolumeClaim             -    status
persistentvolumes                 pv          v1                              false  PersistentVolume                  -    status
pods                              po          v1                              true   Pod                               all  ephemeralcontainers,log,status
replicationcontrollers            rc          v1                              true   ReplicationController             all  scale,status
resourcequotas                    quota       v1                              true   ResourceQuota                     -    status
secrets                           -           v1                              true   Secret
serviceaccounts                   sa          v1                              true   ServiceAccount
services                          svc         v1                              true   Service                           all  status
mutatingadmissionpolicies         -           admissionregistration.k8s.io/v1beta1  false MutatingAdmissionPolicy        api-extensions
mutatingadmissionpolicies         -           admissionregistration.k8s.io/v1alpha1 false MutatingAdmissionPolicy        api-extensions
mutatingadmissionpolicybindings   -           admissionregistration.k8s.io/v1beta1  false MutatingAdmissionPolicyBinding api-extensions
mutatingadmissionpolicybindings   -           admissionregistration.k8s.io/v1alpha1 false MutatingAdmissionPolicyBinding api-extensions
mutatingwebhookconfigurations     -           admissionregistration.k8s.io/v1 false  MutatingWebhookConfiguration      api-extensions
validatingadmissionpolicies       -           admissionregistration.k8s.io/v1 false  ValidatingAdmissionPolicy         api-extensions  status
validatingadmissionpolicybindings -           admissionregistration.k8s.io/v1 false  ValidatingAdmissionPolicyBinding  api-extensions
validatingwebhookconfigurations   -           admissionregistration.k8s.io/v1 false  ValidatingWebhookConfiguration    api-extensions
customresourcedefinitions         crd,crds    apiextensions.k8s.io/v1         false  CustomResourceDefinition          api-extensions  status
daemonsets                        ds          apps/v1                         true   DaemonSet                         all  status
deployments                       deploy      apps/v1                         true   Deployment                        all  scale,status
replicasets                       rs          apps/v1                         true   ReplicaSet                        all  scale,status
statefulsets                      sts         apps/v1                         true   StatefulSet                       all  scale,status
cronjobs                          cj          batch/v1                        true   CronJob                           all  status
jobs                              -           batch/v1                        true   Job                               all  status
leases                            -           coordination.k8s.io/v1          true   Lease
endpointslices                    -           discovery.k8s.io/v1             true   EndpointSlice
ingressclasses                    -           networking.k8s.io/v1            false  IngressClass
ingresses                         ing         networking.k8s.io/v1            true   Ingress                           -    status
networkpolicies                   netpol      networking.k8s.io/v1            true   NetworkPolicy
poddisruptionbudgets              pdb         policy/v1                       true   PodDisruptionBudget               -    status
clusterrolebindings               -           rbac.authorization.k8s.io/v1    false  ClusterRoleBinding
clusterroles                      -           rbac.authorization.k8s.io/v1    false  ClusterRole
rolebindings                      -           rbac.authorization.k8s.io/v1    true   RoleBinding
roles                             -           rbac.authorization.k8s.io/v1    true   Role
priorityclasses                   pc          scheduling.k8s.io/v1            false  PriorityClass
`;

const crd = customResourceDefinitions({
  nameRule: 'dns-subdomain',
  generation: 'all',
  resetFields: ['status'],
});
const resources: readonly Resource[] = [...builtinResources().flat(), crd];

function rowOf(resource: Resource): string {
  const joined = (texts: Iterable<string>): string => [...texts].sort().join(',') || '-';
  return [
    resource.plural,
    joined(resource.shortNames),
    apiVersionOf(resource),
    String(resource.namespaced),
    resource.kind,
    joined(resource.categories),
    joined(resource.subresources.keys()),
  ].join(' ');
}

suite('Kinds', () => {
  test('kubectl api-resources', () => {
    const rows = expected
      .trim()
      .split('\n')
      .map((line) => {
        const fields = line.trim().split(/\s+/);
        while (fields.length < 7) fields.push('-');
        return fields.join(' ');
      });
    assert.deepEqual(resources.map(rowOf).sort(), rows.sort());
  });

  test('verbs: all, but namespaces are not deleted in number', () => {
    for (const { plural, verbs } of resources) {
      const missing = [...allVerbs].filter((verb) => !verbs.has(verb));
      assert.deepEqual(missing, plural === 'namespaces' ? ['deletecollection'] : [], plural);
    }
  });

  for (const resource of resources) {
    test(`${apiVersionOf(resource)} ${resource.kind}: its schema, its type and its columns`, () => {
      const { model, openApi, group, version, kind } = resource;
      const definition = openApi.definitions.get(openApi.name);
      assert.deepEqual(definition?.['x-kubernetes-group-version-kind'], [{ group, kind, version }]);
      assert.equal(model.schema, model.schema);
      const known = model.schema.schema.properties ?? {};
      assert.ok('metadata' in known && 'apiVersion' in known);
      assert.ok(model.applyType.map?.fields.has('metadata'));
      assert.notEqual(model.patchType, undefined);
      const names = resource.columns.map(({ name }) => name);
      assert.ok(names.includes('Name'));
      assert.equal(new Set(names).size, names.length);
      assert.equal(resource.strategy.resetFields.includes('status'), resource.subresources.has('status'));
    });
  }
});

test('CustomResourceDefinition: what its schema knows, and what it does not', () => {
  const object = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'things.example.com' },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { plural: 'things', kind: 'Thing', title: 'x' },
      versions: [
        { name: 'v1', storage: true, schema: { openAPIV3Schema: { type: 'object', default: {}, x: 1 } } },
      ],
    },
  };
  const { schema } = crd.model;
  schema.applyDefaults(object);
  assert.deepEqual(schema.prune(object), ['spec.names.title', 'spec.versions[0].schema.openAPIV3Schema.x']);
  assert.deepEqual(schema.validate(object), []);
  assert.deepEqual(object.spec.versions, [
    {
      name: 'v1',
      served: false,
      storage: true,
      schema: { openAPIV3Schema: { type: 'object', default: {} } },
    },
  ]);
  assert.deepEqual((object.spec as { conversion?: object }).conversion, { strategy: 'None' });
});

suite('Definitions', () => {
  test('every reference leads somewhere', () => {
    const definitions = builtinDefinitions();
    const missing = new Set<string>();
    const visit = (value: unknown): void => {
      if (Array.isArray(value)) value.forEach(visit);
      else if (isObject(value)) {
        const ref = value['$ref'];
        // JSONSchemaProps has a field of that name.
        if (typeof ref === 'string' && !definitions.has(nameOfRef(ref))) missing.add(ref);
        Object.values(value).forEach(visit);
      }
    };
    for (const definition of definitions.values()) visit(definition);
    assert.deepEqual([...missing], []);
    assert.ok(definitions.size > 300);
  });

  test('server-side apply identifies list items by the same keys as Kubernetes', () => {
    const pods = resources.find(({ kind }) => kind === 'Pod');
    const spec = pods?.model.applyType.map?.fields.get('spec')?.map?.fields;
    const container = spec?.get('containers')?.list;
    assert.equal(container?.relation, 'map');
    const ports = container.items.map?.fields.get('ports')?.list;
    assert.deepEqual(ports?.keys, [
      { name: 'containerPort', default: undefined },
      { name: 'protocol', default: 'TCP' },
    ]);
    assert.equal(spec?.get('tolerations')?.list?.relation, 'atomic');
    assert.equal(spec?.get('nodeSelector')?.map?.atomic, true);
    const limits = container.items.map?.fields.get('resources')?.map?.fields.get('limits')?.map;
    assert.equal(limits?.rest?.scalar, 'untyped');
  });

  test('descriptions are texts without the escapes of their source', () => {
    const definition = builtinDefinitions().get('io.k8s.api.core.v1.Container');
    const { args } = (definition?.['properties'] ?? {}) as { args?: { description: string } };
    assert.match(args?.description ?? '', /^Arguments to the entrypoint\. The container image's CMD is used/);
  });
});

suite('Subresources', () => {
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'd', namespace: 'n', uid: 'u', resourceVersion: '5', labels: { a: 'b' } },
    spec: { replicas: 2, selector: { matchLabels: { app: 'd' } } },
    status: { replicas: 1 },
  };
  const of = (kind: string, name: string) => {
    const found = resources.find((one) => one.kind === kind)?.subresources.get(name);
    assert.ok(found);
    return found;
  };

  test('scale', () => {
    const scale = of('Deployment', 'scale');
    assert.deepEqual(scale.read(deployment), {
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      metadata: { name: 'd', namespace: 'n', uid: 'u', resourceVersion: '5', creationTimestamp: undefined },
      spec: { replicas: 2 },
      status: { replicas: 1, selector: 'app=d' },
    });
    const scaled = scale.write(deployment, { spec: { replicas: 7 } });
    assert.deepEqual(scaled, { ...deployment, spec: { ...deployment.spec, replicas: 7 } });
    assert.deepEqual(scale.validate?.(scaled, deployment), []);
    const negative = scale.write(deployment, { spec: { replicas: -1 } });
    assert.equal(scale.validate?.(negative, deployment).length, 1);
    assert.deepEqual(scale.model?.schema.prune({ spec: { replicas: 1, x: 1 } }), ['spec.x']);
    assert.deepEqual(scale.resetFields(deployment), ['status']);
  });

  test('status takes the status and nothing else', () => {
    const status = of('Deployment', 'status');
    const sent = { ...deployment, spec: {}, status: { replicas: 2 } };
    assert.deepEqual(status.write(deployment, sent), { ...deployment, status: { replicas: 2 } });
    const { status: _none, ...without } = sent;
    assert.equal('status' in status.write(deployment, without), false);
    assert.deepEqual(status.resetFields(deployment), ['spec']);
  });

  test('finalize takes the finalizers of a namespace', () => {
    const namespace = {
      metadata: { name: 'n' },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Terminating' },
    };
    const written = of('Namespace', 'finalize').write(namespace, { spec: { finalizers: [] }, status: {} });
    assert.deepEqual(written, { ...namespace, spec: { finalizers: [] } });
    const wrong = of('Namespace', 'finalize').write(namespace, { spec: { finalizers: ['key'] } });
    assert.deepEqual(
      of('Namespace', 'finalize')
        .validate?.(wrong, namespace)
        .map(({ field }) => field),
      ['spec.finalizers[0]'],
    );
    assert.deepEqual(of('Namespace', 'finalize').validate?.(written, namespace), []);
  });
});
