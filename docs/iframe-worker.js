// The search runs in a worker, which browsers refuse to a page opened from a folder; there a hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      inside.document.open()
      inside.document.write(
        "<script>postMessage = message => parent.postMessage(message, '*');" +
          "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {" +
          "const script = document.createElement('script'); script.src = url; script.onload = done; script.onerror = failed;" +
          "document.body.appendChild(script) })), Promise.resolve())</script>" +
          `<body><script src="${url}"></script></body>`
      )
      inside.document.close()
      this.ready = new Promise(done => (inside.onload = done))
      this.hear = event => {
        if (event.source !== inside) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        this.onmessage?.(message)
      }
      window.addEventListener("message", this.hear)
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      window.removeEventListener("message", this.hear)
      this.frame.remove()
    }
  }
}
