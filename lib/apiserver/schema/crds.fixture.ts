/**
 * Schemas of resources that Rampart serves, written from what the guards' users know: KivePolicy and KiveData
 * (kivebpf.san7o.github.io/v1), FileIntegrity (fileintegrity.openshift.io/v1alpha1).
 */

const text = { type: 'string' };
const labels = { type: 'object', additionalProperties: text };
const name = { type: 'string', maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$' };
const conditions = {
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['type'],
  items: {
    type: 'object',
    required: ['type', 'status', 'lastTransitionTime'],
    properties: {
      type: { type: 'string', maxLength: 316 },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
      reason: text,
      message: { type: 'string', maxLength: 32_768 },
      observedGeneration: { type: 'integer', format: 'int64', minimum: 0 },
      lastTransitionTime: { type: 'string', format: 'date-time' },
    },
  },
};

const match = {
  type: 'object',
  minProperties: 1,
  properties: {
    pod: { type: 'string', maxLength: 253 },
    namespace: name,
    containerName: { type: 'string', maxLength: 512 },
    ip: {
      type: 'string',
      maxLength: 45,
      'x-kubernetes-validations': [{ rule: 'isIP(self)', message: 'ip must be an IP address' }],
    },
    matchLabels: {
      type: 'object',
      maxProperties: 64,
      additionalProperties: { type: 'string', maxLength: 63 },
    },
  },
};

const trap = {
  type: 'object',
  required: ['path', 'matchAny'],
  properties: {
    path: { type: 'string', minLength: 1, maxLength: 4_096, pattern: '^/' },
    create: { type: 'boolean', default: false },
    mode: {
      'x-kubernetes-int-or-string': true,
      anyOf: [{ type: 'integer' }, { type: 'string' }],
      pattern: '^[0-7]{3,4}$',
    },
    callback: { type: 'string', format: 'uri' },
    metadata: labels,
    matchAny: { type: 'array', minItems: 1, maxItems: 32, items: match },
  },
  'x-kubernetes-validations': [
    {
      rule: '!has(self.mode) || self.create',
      message: 'mode is only for files that are created',
      fieldPath: '.mode',
    },
    {
      rule: "!self.path.contains('/../')",
      messageExpression: "'path ' + self.path + ' must not climb'",
      reason: 'FieldValueForbidden',
      fieldPath: '.path',
    },
  ],
};

export const kivePolicy = {
  type: 'object',
  required: ['spec'],
  properties: {
    apiVersion: text,
    kind: text,
    metadata: { type: 'object' },
    spec: {
      type: 'object',
      required: ['traps'],
      properties: {
        alertVersion: { type: 'string', default: 'v1', enum: ['v1', ''] },
        traps: { type: 'array', maxItems: 64, items: trap },
      },
    },
    status: { type: 'object', properties: { conditions } },
  },
};

export const kiveData = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      required: ['inodeNo', 'devId', 'kernelId'],
      properties: {
        inodeNo: { type: 'integer', format: 'int64', minimum: 1 },
        devId: { type: 'integer', format: 'int64', minimum: 0 },
        kernelId: { type: 'string', format: 'uuid' },
        metadata: labels,
      },
      'x-kubernetes-validations': [
        {
          rule: 'self.inodeNo == oldSelf.inodeNo && self.devId == oldSelf.devId',
          message: 'the file of a trap is immutable',
        },
      ],
    },
    status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  },
};

export const fileIntegrity = {
  type: 'object',
  required: ['spec'],
  properties: {
    spec: {
      type: 'object',
      required: ['config'],
      properties: {
        config: {
          type: 'object',
          properties: {
            name: text,
            namespace: text,
            key: { type: 'string', default: 'aide.conf' },
            gracePeriod: { type: 'integer', default: 900, minimum: 10 },
            maxBackups: { type: 'integer', default: 5 },
            initialDelay: { type: 'integer', default: 0 },
          },
        },
        nodeSelector: labels,
        debug: { type: 'boolean', default: false },
        priorityClassName: text,
        tolerations: {
          type: 'array',
          default: [
            { key: 'node-role.kubernetes.io/master', operator: 'Exists', effect: 'NoSchedule' },
            { key: 'node-role.kubernetes.io/infra', operator: 'Exists', effect: 'NoSchedule' },
          ],
          items: {
            type: 'object',
            properties: {
              key: text,
              operator: text,
              effect: text,
              value: text,
              tolerationSeconds: { type: 'integer', format: 'int64' },
            },
          },
        },
      },
    },
    status: {
      type: 'object',
      properties: { phase: { type: 'string', enum: ['Initializing', 'Active', 'Pending', 'Error'] } },
    },
  },
};
