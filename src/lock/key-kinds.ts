/** Names whose keys could be those of a lock. Pure. */

/** What follows the namespace in the keys of a lock. */
const KINDS = /:(lease|fence|wait|next|tomb|master|flag|released)(:|$)/

/** Whether keys that begin with the text could be keys of a lock of some namespace. */
export function namesLockKeys(text: string): boolean {
  return KINDS.test(text)
}
