/**
 * An invitation becomes a ticket (ticket.js): early, so that the exchange and the answer lie apart in time, and kept
 * before it is asked for, so that a lost line or a closed window costs nothing.
 */

import { Overtaken } from "./conduct.js";
import { answerId } from "./perturb.js";
import { blind, unblind } from "./ticket.js";
import { Unreachable } from "./web.js";

/** Exchange the invitation, unless that was done; windows of one device share the ticket. */
export function exchange(ctx) {
  const { survey, state, vault, server, description } = ctx;
  if (!survey.invitations || state.ticket?.signed) return null;
  const key = survey.ticket_key;
  const still = () => {
    if (state !== ctx.state) throw new Overtaken(); // deleted meanwhile
  };
  return vault.alone(async () => {
    const kept = (await vault.get())?.ticket; // perhaps of another window
    still();
    if (kept) state.ticket = kept;
    if (state.ticket?.signed) return;
    if (!state.ticket) {
      const name = answerId();
      state.ticket = { name, ...(await blind(key, description.hash, name)) };
    }
    still();
    await ctx.keep(); // the same name is asked for again, whatever happens to the answer
    const { name, hidden, inverse } = state.ticket;
    const signed = await unblind(key, description.hash, name, inverse, await server.exchange(state.code, hidden));
    still();
    state.ticket = { name, signed };
    state.code = null;
    await ctx.keep();
  });
}

/** The same while questions are being answered: without a line it is left for later. */
export async function exchangeSoon(ctx) {
  try {
    await exchange(ctx);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
  }
}
