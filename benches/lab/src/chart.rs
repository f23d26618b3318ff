//! How the plots are drawn: narrow, so that they can be read on a phone, and in colours for white and for black.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: u32 = 400;
/// Readable on white and on black; a page of its own replaces it by its own colour of text.
pub(crate) const INK: RGBColor = RGBColor(122, 122, 122);
const COLOURS: [RGBColor; 6] = [
    RGBColor(46, 160, 67),
    RGBColor(220, 80, 60),
    RGBColor(70, 130, 220),
    RGBColor(190, 125, 10),
    RGBColor(160, 100, 200),
    RGBColor(20, 150, 160),
];
/// Plotters makes letters smaller than it is told; these are 15 and 16 units of the 400 that a plot is wide.
const TEXT: f64 = 18.6;
const TITLE: f64 = 19.9;
const LINE: i32 = 22;

pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// Its place among the colours.
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// What a chart says beside its lines.
pub(crate) struct Labels<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// Whether an axis holds decimal logarithms.
    pub(crate) log: (bool, bool),
    pub(crate) dots: bool,
}

/// Bars over time, a share of each in another colour.
pub(crate) struct Panel {
    pub(crate) name: String,
    /// Taken and refused requests of each bin.
    pub(crate) bars: Vec<(u32, u32)>,
}

fn text(size: f64) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// A value as its axis shows it.
fn label(value: f64, is_log: bool) -> String {
    if is_log {
        return format!("{}", (10.0_f64.powf(value) * 1e5).round() / 1e5);
    }
    format!("{}", (value * 10.0).round() / 10.0)
}

/// Lines or dots over two axes, and below the title the names of the lines.
pub(crate) fn chart(labels: &Labels<'_>, series: &[Series]) -> Outcome<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 380)).into_drawing_area();
        let colour = |series: &Series| COLOURS.get(series.colour).copied().unwrap_or(INK);
        let names: Vec<(&str, RGBColor)> =
            series.iter().map(|series| (series.name, colour(series))).collect();
        let area = headed(&root, labels.title, &names)?;
        let all = || series.iter().flat_map(|series| series.points.iter());
        let range = |pick: fn(&(f64, f64)) -> f64| {
            let least = all().map(pick).fold(f64::INFINITY, f64::min);
            let most = all().map(pick).fold(f64::NEG_INFINITY, f64::max);
            least..most + 0.02 * (most - least).max(1e-9)
        };
        let (xs, ys) = (range(|point| point.0), range(|point| point.1));
        let mut chart = axes(&area, labels, xs, ys)?;
        for series in series {
            let colour = colour(series);
            let points = series.points.iter().copied();
            if labels.dots {
                chart.draw_series(points.map(|point| Circle::new(point, 2, colour.mix(0.7).filled())))?;
            } else {
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
            }
        }
        root.present()?;
    }
    Ok(svg)
}

/// Bars of `width` seconds from `from` on, one panel above the other on the same axes.
pub(crate) fn panels(
    title: &str,
    x: &'static str,
    from: f64,
    width: f64,
    panels: &[Panel],
) -> Outcome<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 440)).into_drawing_area();
        let [taken, refused] = [COLOURS[0], COLOURS[1]];
        let area = headed(&root, title, &[("taken", taken), ("refused (429)", refused)])?;
        let most =
            panels.iter().flat_map(|panel| panel.bars.iter()).map(|(taken, refused)| taken + refused).max();
        let ys = 0.0..f64::from(most.unwrap_or(1)) * 1.05;
        let count = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(1);
        for (part, panel) in area.split_evenly((panels.len(), 1)).iter().zip(panels) {
            let part = named(part, &panel.name)?;
            let labels = Labels { title: "", x, y: "", log: (false, false), dots: false };
            let mut chart = axes(&part, &labels, from..from + width * count as f64, ys.clone())?;
            for (number, (taken_here, refused_here)) in panel.bars.iter().enumerate() {
                let start = from + width * number as f64;
                let (taken_here, refused_here) = (f64::from(*taken_here), f64::from(*refused_here));
                let bar = |low: f64, high: f64, colour: RGBColor| {
                    Rectangle::new([(start, low), (start + 0.8 * width, high)], colour.filled())
                };
                let parts = [(0.0, taken_here, taken), (taken_here, taken_here + refused_here, refused)];
                let parts = parts.into_iter().filter(|(low, high, _)| high > low);
                chart.draw_series(parts.map(|(low, high, colour)| bar(low, high, colour)))?;
            }
        }
        root.present()?;
    }
    Ok(svg)
}

/// Writes the title and the names, three to a line; what is left is for the chart.
fn headed<'a>(root: &Area<'a>, title: &str, names: &[(&str, RGBColor)]) -> Outcome<Area<'a>> {
    let lines = names.len().div_ceil(3) as i32;
    let (head, rest) = root.split_vertically(34 + LINE * lines);
    head.draw(&Text::new(title.to_owned(), (10, 8), text(TITLE)))?;
    for (number, (name, colour)) in names.iter().enumerate() {
        let (x, y) = (10 + 130 * (number % 3) as i32, 32 + LINE * (number / 3) as i32);
        head.draw(&Rectangle::new([(x, y + 5), (x + 10, y + 15)], colour.filled()))?;
        head.draw(&Text::new((*name).to_owned(), (x + 15, y), text(TEXT)))?;
    }
    Ok(rest)
}

fn named<'a>(area: &Area<'a>, name: &str) -> Outcome<Area<'a>> {
    let (head, rest) = area.split_vertically(LINE);
    head.draw(&Text::new(name.to_owned(), (10, 2), text(TEXT)))?;
    Ok(rest)
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn axes<'a, 'b>(
    area: &'a Area<'b>,
    labels: &Labels<'_>,
    xs: Range<f64>,
    ys: Range<f64>,
) -> Outcome<Chart<'a, 'b>> {
    // One for each power of ten.
    let decades = (xs.end - xs.start).round() as usize + 1;
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .margin_right(14)
        .x_label_area_size(48)
        .y_label_area_size(if labels.y.is_empty() { 66 } else { 76 })
        .build_cartesian_2d(xs, ys)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.3))
        .light_line_style(TRANSPARENT)
        .label_style(text(TEXT))
        .axis_desc_style(text(TEXT))
        .x_labels(if labels.log.0 { decades } else { 5 })
        .y_labels(5)
        .x_desc(labels.x)
        .y_desc(labels.y)
        .x_label_formatter(&|value| label(*value, labels.log.0))
        .y_label_formatter(&|value| label(*value, labels.log.1))
        .draw()?;
    Ok(chart)
}
