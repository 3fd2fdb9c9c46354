/** A body is not what its media type says; answered 400. The message is for the client. */
export class BodyMistake extends Error {
  override readonly name = 'BodyMistake';
}

export const bodyMistake = (why: string): BodyMistake => new BodyMistake(why);
