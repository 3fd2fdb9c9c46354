/** The error for a body that its media type does not allow; answered with 400. The message is for the client. */
export class BodyMistake extends Error {
  override readonly name = 'BodyMistake';
}

export const bodyMistake = (why: string): BodyMistake => new BodyMistake(why);
