// Points on a canvas: where they are, how far in the reader has zoomed, and what they look like.

const RADIUS = 4;
const MARGIN = 14;
const FARTHEST = 400;
const TAP_PIXELS = 5;

export class View {
  onMove = () => {};
  onTap = () => {};
  #canvas;
  #x;
  #y;
  #groups;
  #symbols;
  #hidden = new Set();
  #scale = 1;
  #center = [0, 0];
  #marked = null;
  #sprites = [];
  #frame = 0;
  #fingers = new Map();
  #began = null;

  /** `symbols` are the legend's, one for each group: their shapes and colours are those of the points. */
  constructor(canvas, points, groups, symbols) {
    this.#canvas = canvas;
    this.#x = Float32Array.from(points.x);
    this.#y = Float32Array.from(points.y);
    this.#groups = groups;
    this.#symbols = symbols;
    new ResizeObserver(() => this.#prepare()).observe(canvas);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#prepare());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#drag(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event, true));
    canvas.addEventListener("pointercancel", (event) => this.#up(event, false));
  }

  get #unit() {
    return (Math.min(this.#canvas.clientWidth, this.#canvas.clientHeight) / 2 - MARGIN) * this.#scale;
  }

  show(group, isShown) {
    if (isShown) this.#hidden.delete(group);
    else this.#hidden.add(group);
    this.#draw();
  }

  mark(index) {
    this.#marked = index;
    this.#draw();
  }

  reset() {
    this.#scale = 1;
    this.#center = [0, 0];
    this.#moved();
  }

  /** Zoom by a factor around a place of the canvas, its middle unless one is given. */
  zoom(factor, left = this.#canvas.clientWidth / 2, top = this.#canvas.clientHeight / 2) {
    const [x, y] = this.#valueAt(left, top);
    this.#scale = Math.min(FARTHEST, Math.max(0.5, this.#scale * factor));
    const [movedX, movedY] = this.#valueAt(left, top);
    this.#center = [this.#center[0] + x - movedX, this.#center[1] + y - movedY];
    this.#moved();
  }

  /** Move the points to the right and down by shares of the canvas. */
  pan(right, down) {
    this.#shift(right * this.#canvas.clientWidth, down * this.#canvas.clientHeight);
    this.#moved();
  }

  placeOf(index) {
    const unit = this.#unit;
    return [
      this.#canvas.clientWidth / 2 + (this.#x[index] - this.#center[0]) * unit,
      this.#canvas.clientHeight / 2 - (this.#y[index] - this.#center[1]) * unit,
    ];
  }

  /** Return the point at a place of the canvas, null when none is that near. */
  at(left, top, reach = 8) {
    const [x, y] = this.#valueAt(left, top);
    let nearest = null;
    let least = (reach / this.#unit) ** 2;
    for (let index = 0; index < this.#x.length; index += 1) {
      const distance = (this.#x[index] - x) ** 2 + (this.#y[index] - y) ** 2;
      if (distance <= least && !this.#hidden.has(this.#groups[index])) [nearest, least] = [index, distance];
    }
    return nearest;
  }

  atMiddle() {
    return this.at(this.#canvas.clientWidth / 2, this.#canvas.clientHeight / 2, Infinity);
  }

  #valueAt(left, top) {
    const unit = this.#unit;
    return [
      this.#center[0] + (left - this.#canvas.clientWidth / 2) / unit,
      this.#center[1] - (top - this.#canvas.clientHeight / 2) / unit,
    ];
  }

  #shift(right, down) {
    this.#center = [this.#center[0] - right / this.#unit, this.#center[1] + down / this.#unit];
  }

  #moved() {
    this.onMove();
    this.#draw();
  }

  #down(event) {
    if (event.button !== 0) return;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#fingers.set(event.pointerId, event);
    this.#began = this.#fingers.size === 1 ? event : null;
  }

  #drag(event) {
    const before = this.#fingers.get(event.pointerId);
    if (!before) return;
    const other = [...this.#fingers.values()].find((each) => each.pointerId !== event.pointerId);
    this.#fingers.set(event.pointerId, event);
    if (other) {
      const [was, is] = [before, event].map((each) => Math.hypot(each.offsetX - other.offsetX, each.offsetY - other.offsetY));
      if (was > 0 && is > 0) this.zoom(is / was, (event.offsetX + other.offsetX) / 2, (event.offsetY + other.offsetY) / 2);
      return;
    }
    if (this.#began && Math.hypot(event.offsetX - this.#began.offsetX, event.offsetY - this.#began.offsetY) < TAP_PIXELS) return;
    this.#began = null;
    this.#shift(event.offsetX - before.offsetX, event.offsetY - before.offsetY);
    this.#moved();
  }

  #up(event, isTap) {
    if (!this.#fingers.delete(event.pointerId)) return;
    if (isTap && this.#began) this.onTap(event.offsetX, event.offsetY, event);
    this.#began = null;
  }

  #prepare() {
    const ratio = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(this.#canvas.clientWidth * ratio);
    this.#canvas.height = Math.round(this.#canvas.clientHeight * ratio);
    const size = Math.ceil(RADIUS * 3 * ratio);
    this.#sprites = this.#symbols.map((symbol) => {
      const sprite = new OffscreenCanvas(size, size);
      const pen = sprite.getContext("2d");
      pen.translate(size / 2, size / 2);
      pen.scale((RADIUS / 6) * ratio, (RADIUS / 6) * ratio);
      pen.fillStyle = getComputedStyle(symbol).color;
      pen.globalAlpha = 0.8;
      pen.fill(new Path2D(symbol.querySelector("path").getAttribute("d")));
      return sprite;
    });
    this.#draw();
  }

  #draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  #paint() {
    const ratio = window.devicePixelRatio || 1;
    const pen = this.#canvas.getContext("2d");
    const { width, height } = this.#canvas;
    pen.clearRect(0, 0, width, height);
    if (!this.#sprites.length) return;
    const half = this.#sprites[0].width / 2;
    const [left, top, unit] = [width / 2, height / 2, this.#unit * ratio];
    const [centerX, centerY] = this.#center;
    // Documents of rare values would vanish under the many others: groups are painted last first.
    for (let group = this.#sprites.length - 1; group >= 0; group -= 1) {
      if (this.#hidden.has(group)) continue;
      const sprite = this.#sprites[group];
      for (let index = 0; index < this.#x.length; index += 1) {
        if (this.#groups[index] !== group) continue;
        const x = left + (this.#x[index] - centerX) * unit;
        const y = top - (this.#y[index] - centerY) * unit;
        if (x > -half && y > -half && x < width + half && y < height + half) pen.drawImage(sprite, x - half, y - half);
      }
    }
    if (this.#marked === null) return;
    const [x, y] = this.placeOf(this.#marked);
    pen.strokeStyle = getComputedStyle(this.#canvas).color;
    pen.lineWidth = 2 * ratio;
    pen.beginPath();
    pen.arc(x * ratio, y * ratio, RADIUS * 2 * ratio, 0, 2 * Math.PI);
    pen.stroke();
  }
}
