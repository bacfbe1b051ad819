use std::fmt::{Display, Write};

/// HTML under construction. Only [`Html::raw`] takes markup, and only static text: markup of this program. Everything else is
/// escaped.
#[derive(Debug, Default)]
pub(super) struct Html {
    text: String,
}

impl Html {
    /// Markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// Any text: names, messages. Characters that control a terminal or the direction of writing are shown as `�`.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for one in text.chars() {
            match one {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                '\n' | '\t' => self.text.push(' '),
                one => self.text.push(crate::display_text::printable(one)),
            }
        }
        self
    }

    /// Text of several lines, for a `textarea` or `pre`: lines stay lines.
    pub(super) fn lines(&mut self, text: &str) -> &mut Self {
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                self.text.push('\n');
            }
            self.text(line);
        }
        self
    }

    /// A number or another value, as text.
    pub(super) fn show(&mut self, value: impl Display) -> &mut Self {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(text, "{value}");
        self.text(&text)
    }

    /// An attribute, with the space before it.
    pub(super) fn attribute(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    /// The path of a cluster's page, as the value of an attribute.
    pub(super) fn cluster_path(&mut self, name: &str) -> &mut Self {
        let path = format!("/ui/clusters/{}", encode(name));
        self.text(&path)
    }

    /// The whole.
    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Percent-encodes everything but unreserved characters (RFC 3986).
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_no_markup_in_elements_and_attributes() {
        let mut html = Html::default();
        html.raw("<p").attribute("title", "\"><script>'").raw(">").text("<b>&\u{202e}\u{1b}").raw("</p>");
        assert_eq!(html.finish(), "<p title=\"&quot;&gt;&lt;script&gt;&#39;\">&lt;b&gt;&amp;\u{fffd}\u{fffd}</p>");
    }

    #[test]
    fn paths_hold_any_name() {
        assert_eq!(encode("*.Prod-1_x~.test"), "%2A.Prod-1_x~.test");
        assert_eq!(encode("../ä?#\"<"), "..%2F%C3%A4%3F%23%22%3C");
    }

    #[test]
    fn lines_of_a_text_stay_lines() {
        let mut html = Html::default();
        html.lines("a\n<b>\r\n");
        assert_eq!(html.finish(), "a\n&lt;b&gt;\u{fffd}\n");
    }
}
