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
                one => self.text.push(crate::plain::plain(one)),
            }
        }
        self
    }

    /// A cell of a table, of a class.
    pub(super) fn cell(&mut self, class: &str, text: &str) -> &mut Self {
        self.raw("<td class=\"").text(class).raw("\">").text(text).raw("</td>")
    }

    /// Starts a table.
    pub(super) fn head(&mut self, names: &[&'static str]) -> &mut Self {
        self.raw("<table>\n<tr>");
        for name in names {
            self.raw("<th>").raw(name).raw("</th>");
        }
        self.raw("</tr>\n")
    }

    /// The whole.
    pub(super) fn finish(self) -> String {
        self.text
    }
}
