/**
 * Answers wait here, encrypted: AES-GCM by a key that the browser keeps and does not give out, not even to this page.
 *
 * This protects what lies on the disk. It does not protect from somebody who can open this page in this browser.
 */

const NAME = "sfumato-survey";

export class Vault {
  /** One vault for each survey address; `database` is opened on first use. */
  constructor(survey) {
    this.survey = survey;
  }

  /** Encrypt and keep a value, in place of what was there. */
  async put(value) {
    const key = await this.key();
    const iv = globalThis.crypto.getRandomValues(new Uint8Array(12));
    const plain = new TextEncoder().encode(JSON.stringify(value));
    const sealed = await globalThis.crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData: this.bound() }, key, plain);
    await this.run("readwrite", (kept) => kept.put({ iv, sealed }, `sealed ${this.survey}`));
  }

  /** What was kept, or null; also null where it cannot be opened any more, for example after the key was cleared. */
  async get() {
    const found = await this.run("readonly", (kept) => kept.get(`sealed ${this.survey}`));
    const key = await this.run("readonly", (kept) => kept.get(`key ${this.survey}`));
    if (!found || !key) return null;
    const how = { name: "AES-GCM", iv: found.iv, additionalData: this.bound() };
    try {
      return JSON.parse(new TextDecoder().decode(await globalThis.crypto.subtle.decrypt(how, key, found.sealed)));
    } catch {
      return null;
    }
  }

  /** Forget the value and the key that could open a copy of it. */
  async clear() {
    await this.run("readwrite", (kept) => kept.delete(`sealed ${this.survey}`));
    await this.run("readwrite", (kept) => kept.delete(`key ${this.survey}`));
  }

  /** Run alone: two windows of the same survey never draw at the same time. */
  alone(work) {
    return navigator.locks ? navigator.locks.request(`${NAME} ${this.survey}`, work) : work();
  }

  bound() {
    return new TextEncoder().encode(this.survey);
  }

  async key() {
    const kept = await this.run("readonly", (store) => store.get(`key ${this.survey}`));
    if (kept) return kept;
    const key = await globalThis.crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]);
    await this.run("readwrite", (store) => store.put(key, `key ${this.survey}`));
    return key;
  }

  async run(mode, request) {
    this.database ??= openDatabase();
    const database = await this.database;
    return new Promise((resolve, reject) => {
      const transaction = database.transaction("kept", mode, { durability: "strict" });
      const asked = request(transaction.objectStore("kept"));
      transaction.oncomplete = () => resolve(asked.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  }
}

function openDatabase() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("kept");
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}
