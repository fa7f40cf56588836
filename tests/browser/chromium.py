"""Drives headless Chromium by its DevTools protocol over a pipe, with Python's standard library only."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


class Failed(Exception):
    pass


class Browser:
    """A page of a new Chromium. Sizes are in CSS pixels; x and y are shares of an element's width and height."""

    def __init__(self, program, width=1000, height=800):
        self.folder = tempfile.mkdtemp()
        to_browser, from_us = os.pipe()
        from_browser, to_us = os.pipe()

        def hand_over():  # the browser reads commands from descriptor 3 and writes answers to 4
            os.dup2(to_browser, 1003)
            os.dup2(to_us, 1004)
            os.dup2(1003, 3)
            os.dup2(1004, 4)

        self.process = subprocess.Popen(
            [program, '--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--hide-scrollbars',
             '--disable-dev-shm-usage', '--user-data-dir=' + self.folder, 'about:blank'],
            preexec_fn=hand_over, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(to_us)
        self.out, self.pipe, self.pending, self.count = from_us, from_browser, b'', 0
        self.events = []
        target = next(t for t in self.call('Target.getTargets')['targetInfos'] if t['type'] == 'page')
        self.session = None
        self.session = self.call('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(domain + '.enable')
        self.resize(width, height)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self):
        while b'\0' not in self.pending:
            part = os.read(self.pipe, 1 << 20)
            if not part:
                raise Failed('the browser has ended')
            self.pending += part
        message, self.pending = self.pending.split(b'\0', 1)
        return json.loads(message)

    def call(self, method, **params):
        self.count += 1
        message = {'id': self.count, 'method': method, 'params': params}
        if getattr(self, 'session', None):
            message['sessionId'] = self.session
        data = json.dumps(message).encode() + b'\0'
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.read()
            if answer.get('id') == self.count:
                if 'error' in answer:
                    raise Failed(method + ': ' + answer['error']['message'])
                return answer['result']
            self.events.append(answer)

    def resize(self, width, height, scale=1):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def open(self, path, fragment=''):
        """Loads a file and returns the seconds until its script has drawn the first view."""
        self.events.clear()
        start = time.monotonic()
        self.call('Page.navigate', url='about:blank')
        start = time.monotonic()
        self.call('Page.navigate', url='file://' + os.path.abspath(path) + fragment)
        self.wait("document.documentElement && document.documentElement.dataset.ready === 'yes'", 60)
        self.evaluate('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')
        return time.monotonic() - start

    def evaluate(self, expression):
        answer = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise Failed(expression + ': ' + json.dumps(answer['exceptionDetails'])[:300])
        return answer['result'].get('value')

    def wait(self, condition, seconds=5):
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise Failed(f'not true within {seconds} s: {condition}')
            time.sleep(0.005)

    def settle(self):
        """Waits until the page has drawn what it scheduled."""
        self.evaluate('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')

    def place(self, selector, x=0.5, y=0.5):
        box = self.evaluate(
            f'(e => {{ e.scrollIntoView({{block: "nearest"}}); const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})'
            f'(document.querySelector({json.dumps(selector)}))')
        return box[0] + x * box[2], box[1] + y * box[3]

    def move(self, selector, x=0.5, y=0.5):
        at = self.place(selector, x, y)
        self.call('Input.dispatchMouseEvent', type='mouseMoved', x=at[0], y=at[1])
        return at

    def click(self, selector, modifiers=0):
        x, y = self.move(selector)
        for kind in ('mousePressed', 'mouseReleased'):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1, modifiers=modifiers)
        self.settle()

    def key(self, name, text=''):
        codes = {'ArrowLeft': 37, 'ArrowUp': 38, 'ArrowRight': 39, 'ArrowDown': 40, 'Enter': 13, 'Escape': 27, 'Tab': 9, 'Home': 36, 'End': 35}
        code = codes.get(name, ord(name[0].upper()))
        self.call('Input.dispatchKeyEvent', type='keyDown', key=name, windowsVirtualKeyCode=code, text=text)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=name, windowsVirtualKeyCode=code)
        self.settle()

    def choose(self, selector, value):
        self.evaluate(f'(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event("change", {{bubbles: true}})); }})'
                      f'(document.querySelector({json.dumps(selector)}))')
        self.settle()

    def media(self, **features):
        self.call('Emulation.setEmulatedMedia', features=[{'name': n.replace('_', '-'), 'value': v} for n, v in features.items()])
        self.settle()

    def screenshot(self, path, whole=False):
        data = self.call('Page.captureScreenshot', format='png', captureBeyondViewport=whole)['data']
        with open(path, 'wb') as file:
            file.write(base64.b64decode(data))

    def pdf(self):
        return base64.b64decode(self.call('Page.printToPDF', printBackground=True)['data'])

    def complaints(self):
        """Returns the errors of scripts and of the browser, and the requests for anything but file:, about: and data: URLs."""
        found = []
        for event in self.events:
            method, params = event.get('method'), event.get('params', {})
            if method == 'Runtime.exceptionThrown':
                found.append(params['exceptionDetails'].get('text', '') + str(params['exceptionDetails'].get('exception', {}).get('description')))
            elif method == 'Log.entryAdded' and params['entry']['level'] == 'error':
                found.append(params['entry']['text'])
            elif method == 'Network.requestWillBeSent' and not params['request']['url'].startswith(('file:', 'about:', 'data:')):
                found.append('a request for ' + params['request']['url'])
        return found
