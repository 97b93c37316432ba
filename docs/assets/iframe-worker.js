/* A browser starts no worker from a file on disk, and the search of the site is one. Where pages are read from disk, a
   hidden frame runs its script instead; messages to and from it are events, as those of a worker are. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "Search";
      frame.worker = this;
      frame.srcdoc = `<script>
        postMessage = data => frameElement.worker.dispatchEvent(new MessageEvent("message", {data}));
      <\/script><script src="${url}"><\/script>`;
      this.started = new Promise(done => { frame.onload = () => done(frame.contentWindow); });
      document.body.append(frame);
    }
    postMessage(data) {
      this.started.then(inner => inner.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
