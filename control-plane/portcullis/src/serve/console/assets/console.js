// Follows a page: after each event of the server the same page is fetched again, and the parts that differ are replaced. The
// server writes and escapes all of it, here no markup is made. Without this script the page is whole, and does not refresh by itself.
"use strict";

(() => {
  const events = document.body.dataset.events;
  const connection = document.getElementById("connection");
  const RETRY_MS = 10_000;
  const TYPING_MS = 250;
  let source;
  let retry;
  let isBusy = false;
  let isDue = false;

  const say = (text) => {
    if (connection && connection.textContent !== text) connection.textContent = text;
  };

  // Replaces a part, and leaves the focus and what was opened where they are.
  const replace = (old, fresh) => {
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const name = focused && (focused.id || focused.getAttribute("href") || focused.getAttribute("aria-label"));
    const scrolled = [...old.querySelectorAll(".scroll")].map((part) => [part.scrollLeft, part.scrollTop]);
    old.replaceChildren(...fresh.childNodes);
    old.className = fresh.className;
    [...old.querySelectorAll(".scroll")].forEach((part, index) => {
      if (scrolled[index]) [part.scrollLeft, part.scrollTop] = scrolled[index];
    });
    if (name) {
      const again = [...old.querySelectorAll("a, button, input, [tabindex]")].find((one) =>
        [one.id, one.getAttribute("href"), one.getAttribute("aria-label")].includes(name));
      if (again) again.focus({ preventScroll: true });
    }
  };

  // The states of the head of the page, for readers who do not see it.
  const states = (part) => [...part.querySelectorAll(".state, .critical, .warning")].map((one) => one.textContent).join(", ");

  const show = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    let announcement = "";
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (!other || other.innerHTML === part.innerHTML) continue;
      const before = states(part);
      replace(part, other);
      if ("announce" in part.dataset && states(part) !== before) announcement = states(part);
    }
    document.title = fresh.title || document.title;
    return announcement;
  };

  const refresh = async () => {
    if (isBusy) {
      isDue = true;
      return;
    }
    isBusy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) {
        // The session has ended: the server shows the login.
        location.reload();
        return;
      }
      if (answer.ok) {
        const announcement = show(await answer.text());
        say(announcement ? `Live. Changed: ${announcement}` : "Live");
      }
    } catch {
      say("Not live: the control plane does not answer");
    } finally {
      isBusy = false;
      if (isDue) {
        isDue = false;
        setTimeout(refresh, 0);
      }
    }
  };

  const stop = () => {
    if (source) source.close();
    source = undefined;
    clearTimeout(retry);
  };

  const follow = () => {
    stop();
    source = new EventSource(events);
    source.addEventListener("open", () => say("Live"));
    source.addEventListener("changed", refresh);
    source.addEventListener("error", () => {
      if (source && source.readyState !== EventSource.CLOSED) return;
      // Refused: the session has ended, which the page itself shows, or there are too many streams.
      say("Not live: trying again");
      clearTimeout(retry);
      retry = setTimeout(follow, RETRY_MS);
      refresh();
    });
  };

  const filter = document.getElementById("q");
  if (filter) {
    let typing;
    filter.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        const url = new URL(location.href);
        if (filter.value) url.searchParams.set("q", filter.value);
        else url.searchParams.delete("q");
        history.replaceState(null, "", url);
        refresh();
      }, TYPING_MS);
    });
  }

  const answer = document.getElementById("answer");
  if (answer) answer.focus({ preventScroll: false });

  if (events) {
    follow();
    // A page that is not seen needs no stream.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) stop();
      else refresh().then(follow);
    });
  }
})();
