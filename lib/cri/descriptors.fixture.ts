/** The table in `schema.ts` as @bufbuild/protobuf and Connect take it. */
import { descriptorsOf } from '../protobuf/descriptors.fixture.ts';
import { messages, methods } from './lab-schema.fixture.ts';

export const { method: methodDescriptor, message: messageDescriptor } = descriptorsOf(
  { ...messages },
  { ...methods },
);
