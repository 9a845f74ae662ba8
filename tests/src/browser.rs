//! Chromium without a window, told what to do over its debugging pipe (the DevTools protocol: JSON, each message ended by a
//! zero byte).

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// For an answer of the browser, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
    session: Option<String>,
    count: u64,
}

impl Browser {
    /// Starts Chromium in this thread's network, with `profile` as the folder of its files.
    pub fn start(profile: &Path) -> Browser {
        // Its debugging pipe is descriptors 3 and 4. Root has no sandbox; the one page it sees is ours.
        let script = "exec chromium-headless-shell --no-sandbox --disable-gpu --disable-dev-shm-usage \
                      --remote-debugging-pipe --user-data-dir=\"$0\" about:blank 3<&0 4>&1 >&2";
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "sh", "-c", script])
            .arg(profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("setpriv is one of the packages of set-up");
        let input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut text = Vec::new();
            while output.read_until(0, &mut text).is_ok_and(|length| length > 0) {
                text.pop();
                let message = serde_json::from_slice(&text).expect("the browser speaks JSON");
                text.clear();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Browser { child, input, messages, events: VecDeque::new(), session: None, count: 0 };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the DevTools protocol; its result. Panics with the browser's error.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.count += 1;
        let mut message = json!({ "id": self.count, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let text = format!("{message}\0");
        self.input.write_all(text.as_bytes()).expect("the browser runs");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut answer = match self.messages.recv_timeout(left) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout) => panic!("no answer to {method}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser ended in {method}"),
            };
            if answer["id"] == json!(self.count) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push_back(answer);
        }
    }

    /// Goes to a page.
    pub fn open(&mut self, url: &str) {
        let result = self.call("Page.navigate", json!({ "url": url }));
        assert!(result.get("errorText").is_none(), "{url}: {result}");
    }

    /// The value of a JavaScript expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until a JavaScript expression is true.
    pub fn wait_for(&mut self, expression: &str, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.value(expression) != json!(true) {
            if Instant::now() >= deadline {
                let text = self.value("document.body.innerText");
                panic!("not within {limit:?}: {expression}; the page says: {text}");
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Makes the window so wide and high, in CSS pixels, and light or dark.
    pub fn show(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": feature }));
    }

    /// A picture of the whole page, as base64 of a PNG.
    pub fn screenshot(&mut self) -> String {
        let parameters = json!({ "format": "png", "captureBeyondViewport": true });
        let result = self.call("Page.captureScreenshot", parameters);
        result["data"].as_str().expect("base64").to_owned()
    }

    /// What the page complained of so far: exceptions, refused resources, breaches of its security policy.
    pub fn complaints(&mut self) -> Vec<String> {
        self.events("Runtime.exceptionThrown").chain(self.events("Log.entryAdded")).collect()
    }

    /// The addresses of everything the page fetched so far.
    pub fn fetched(&self) -> Vec<String> {
        let requests = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let url = |event: &Value| event["params"]["request"]["url"].as_str().map(str::to_owned);
        requests.filter_map(url).collect()
    }

    fn events(&self, method: &'static str) -> impl Iterator<Item = String> + '_ {
        let named = move |event: &&Value| event["method"] == method;
        self.events.iter().filter(named).map(|event| event["params"].to_string())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its helpers end when it does.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
