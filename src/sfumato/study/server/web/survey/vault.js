/**
 * Answers wait here, encrypted: AES-GCM by a key that the browser keeps and does not give out, not even to this page.
 *
 * This protects what lies on the disk. It does not protect from somebody who can open this page in this browser.
 */

const NAME = "sfumato-survey";

/** This browser does not let the page keep, read or delete anything: storage is blocked, or the disk is full. */
export class NotKept extends Error {
  constructor(cause) {
    super("not kept", { cause });
    this.name = "NotKept";
  }
}

export class Vault {
  /** One vault for each survey address; the database is opened on first use. */
  constructor(survey) {
    this.survey = survey;
    this.names = [`sealed ${survey}`, `key ${survey}`];
  }

  /** What is kept, or null; also null where it cannot be opened any more, for example after the key was cleared. */
  async get() {
    return (await this.read()).value;
  }

  /**
   * Read, decide and write in one step: no other change, of this window or another one, comes in between.
   * `decide` is given what is kept (or null) and returns what should be kept in its place, or null for nothing.
   */
  change(decide) {
    return navigator.locks.request(`${NAME} change ${this.survey}`, async () => {
      const { key, value } = await this.read();
      const next = decide(value);
      if (next === null) await this.run("readwrite", (kept) => this.names.map((name) => kept.delete(name)));
      else await this.write(next, key);
      return next;
    });
  }

  /** Forget the value and the key that could open a copy of it. */
  clear() {
    return this.change(() => null);
  }

  /** Run alone: two windows of the same survey never draw at the same time. */
  alone(work) {
    return navigator.locks.request(`${NAME} ${this.survey}`, work);
  }

  async read() {
    const [found, key] = await this.run("readonly", (kept) => this.names.map((name) => kept.get(name)));
    if (!found || !key) return { key, value: null };
    try {
      const plain = await globalThis.crypto.subtle.decrypt(this.cipher(found.iv), key, found.sealed);
      return { key, value: JSON.parse(new TextDecoder().decode(plain)) };
    } catch {
      return { key, value: null };
    }
  }

  /** The value and the key that opens it are written together: neither is ever without the other. */
  async write(value, kept) {
    const cipher = { name: "AES-GCM", length: 256 };
    const key = kept ?? (await globalThis.crypto.subtle.generateKey(cipher, false, ["encrypt", "decrypt"]));
    const iv = globalThis.crypto.getRandomValues(new Uint8Array(12));
    const plain = new TextEncoder().encode(JSON.stringify(value));
    const sealed = await globalThis.crypto.subtle.encrypt(this.cipher(iv), key, plain);
    const pair = [{ iv, sealed }, key];
    await this.run("readwrite", (kept) => this.names.map((name, at) => kept.put(pair[at], name)));
  }

  cipher(iv) {
    return { name: "AES-GCM", iv, additionalData: new TextEncoder().encode(this.survey) };
  }

  /** Results of the requests that `ask` makes, in one transaction; once more if the browser closed the database. */
  async run(mode, ask) {
    for (let attempt = 1; ; attempt++) {
      try {
        this.database ??= openDatabase();
        return await transact(await this.database, mode, ask);
      } catch (error) {
        this.database = undefined;
        if (attempt > 1) throw new NotKept(error);
      }
    }
  }
}

function transact(database, mode, ask) {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction("kept", mode, { durability: "strict" });
    const asked = ask(transaction.objectStore("kept"));
    transaction.oncomplete = () => resolve(asked.map((request) => request.result));
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });
}

function openDatabase() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("kept");
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}
