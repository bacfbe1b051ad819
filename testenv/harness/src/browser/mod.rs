//! Debian's Chromium without a screen, driven by WebDriver: pages as people see them.

mod session;

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::plain;
use crate::error::Result;
use crate::process::{Process, Spec};
use crate::rundir::RunDir;
use crate::{deps, ports};
use session::Session;

/// The member of an answer that names an element (WebDriver, section 11.1).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A running browser with one page. Ends with this value.
#[derive(Debug)]
pub struct Browser {
    session: Session,
    // Behind the session, which it ends.
    _driver: Process,
}

/// The colours that the reader prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorScheme {
    /// Dark text on light ground.
    Light,
    /// The other way.
    Dark,
}

/// An element of the page.
#[derive(Clone, Debug)]
pub struct Element(String);

impl Browser {
    /// Starts the browser with a window of this size. Certificates are not checked: a test's authorities are not the browser's.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], or the step that failed with the last log lines.
    pub fn start(run: &RunDir, width: u32, height: u32) -> Result<Self> {
        let installed = deps::chromium()?;
        let dir = run.make_dir("browser")?;
        let address = ports::free_address()?;
        let spec = Spec::new("chromedriver", installed.driver, &dir)
            .env("LD_LIBRARY_PATH", &installed.libraries)
            .env("FONTCONFIG_FILE", installed.fonts)
            .env("HOME", &dir)
            .flag("port", address.port().to_string());
        let driver = Process::start(spec)?;
        driver.wait_ready("readiness of chromedriver", Duration::from_secs(30), || {
            let answer = plain::get(address, "/status").map_err(|error| error.to_string())?;
            if answer.text().contains("\"ready\":true") { Ok(()) } else { Err(answer.text()) }
        })?;
        let options = json!({
            "binary": installed.browser,
            "args": [
                "--headless=new",
                // The sandbox needs rights that tests need not have; every page is our own.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-proxy-server",
                // The browser ends when the driver does.
                "--remote-debugging-pipe",
                format!("--user-data-dir={}", dir.join("profile").display()),
                format!("--window-size={width},{height}"),
            ],
        });
        let capabilities = json!({"alwaysMatch": {
            "acceptInsecureCerts": true,
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }});
        Ok(Self { session: Session::begin(address, &capabilities)?, _driver: driver })
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Errors
    /// [`crate::Error::Http`] with the driver's message.
    pub fn open(&self, address: SocketAddr, path: &str) -> Result<()> {
        self.open_url(&format!("http://{address}{path}"))
    }

    /// As [`Browser::open`], by a whole URL.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn open_url(&self, url: &str) -> Result<()> {
        self.session.post("/url", &json!({"url": url})).map(drop)
    }

    /// The address of the page.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn url(&self) -> Result<String> {
        Ok(text(&self.session.get("/url")?))
    }

    /// The value of a function's body in the page; arguments are `arguments[0]` and so on.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn run(&self, script: &str, arguments: &[Value]) -> Result<Value> {
        self.session.post("/execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// As [`Browser::run`], for a body that calls its last argument with the value.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn run_async(&self, script: &str, arguments: &[Value]) -> Result<Value> {
        self.session.post("/execute/async", &json!({"script": script, "args": arguments}))
    }

    /// The text of the page, as it is seen.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn text(&self) -> Result<String> {
        Ok(text(&self.run("return document.body.innerText", &[])?))
    }

    /// The first element that a CSS selector finds.
    ///
    /// # Errors
    /// As [`Browser::open`]; also if there is none.
    pub fn find(&self, selector: &str) -> Result<Element> {
        let found = self.session.post("/element", &json!({"using": "css selector", "value": selector}))?;
        Ok(Element(found.get(ELEMENT).map(text).unwrap_or_default()))
    }

    /// Clicks on an element.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn click(&self, element: &Element) -> Result<()> {
        self.session.post(&format!("/element/{}/click", element.0), &json!({})).map(drop)
    }

    /// Types text into an element.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn type_into(&self, element: &Element, text: &str) -> Result<()> {
        self.session.post(&format!("/element/{}/value", element.0), &json!({"text": text})).map(drop)
    }

    /// Presses a key wherever the focus is.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn press(&self, key: char) -> Result<()> {
        let key = key.to_string();
        let strokes = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]});
        self.session.post("/actions", &actions).map(drop)
    }

    /// The messages of the page's console since the last call.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn console_messages(&self) -> Result<Vec<String>> {
        let log = self.session.post("/se/log", &json!({"type": "browser"}))?;
        let messages = log.as_array().into_iter().flatten();
        Ok(messages.filter_map(|one| one.get("message").map(text)).collect())
    }

    /// The cookies of the page.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn cookies(&self) -> Result<Vec<Value>> {
        Ok(self.session.get("/cookie")?.as_array().cloned().unwrap_or_default())
    }

    /// Pretends that the reader prefers these colours.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn prefer(&self, colors: ColorScheme) -> Result<()> {
        let value = if colors == ColorScheme::Dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features}))
    }

    /// Turns JavaScript of pages that are opened later off or on.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn allow_scripts(&self, allowed: bool) -> Result<()> {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": !allowed}))
    }

    /// The visible part of the page as a PNG.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn screenshot(&self) -> Result<Vec<u8>> {
        let encoded = text(&self.session.get("/screenshot")?);
        Ok(STANDARD.decode(encoded).unwrap_or_default())
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Result<()> {
        self.session.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).map(drop)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
