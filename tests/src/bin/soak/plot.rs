//! Acquisitions per second as a drawing, with the faults below.

use plotters::prelude::*;

use crate::faults::{Lane, row_of};
use crate::report::Figures;

const SIZE: (u32, u32) = (1_200, 500);
const FONT: (&str, u32) = ("sans-serif", 14);
const TITLE: (&str, u32) = ("sans-serif", 18);

/// Colours that people with any eyesight can tell apart.
const GRANTS: RGBColor = RGBColor(0, 0, 0);
const LANES: [(Lane, &str, RGBColor); 3] = [
    (Lane::Processes, "processes", RGBColor(0, 114, 178)),
    (Lane::Links, "links", RGBColor(230, 159, 0)),
    (Lane::Servers, "servers", RGBColor(213, 94, 0)),
];

/// The least width of a fault, in seconds, so that the eye finds it.
const WIDTH_MIN: f64 = 0.05;

/// The drawing, as SVG.
pub(crate) fn drawn(
    store: &str,
    seed: u64,
    figures: &Figures,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let top = figures.per_second.iter().copied().max().map_or(1.0, f64::from).max(1.0);
        let span = figures.per_second.len().max(1) as f64;
        // The lanes of faults lie below zero.
        let lane = top * 0.07;
        let mut chart = ChartBuilder::on(&root)
            .caption(format!("{store}, seed {seed}: acquisitions per second, and faults"), TITLE)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..span, -4.0 * lane..top * 1.1)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .max_light_lines(1)
            .label_style(FONT)
            .x_desc("seconds")
            .y_desc("acquisitions per second")
            .y_label_formatter(&|rate| {
                if *rate < 0.0 { String::new() } else { format!("{rate:.0}") }
            })
            .draw()?;
        for ((which, name, colour), place) in LANES.into_iter().zip([1.0, 2.0, 3.0]) {
            let (above, below) = (-lane * (place - 0.1), -lane * (place + 0.7));
            let of_it = figures.faults.iter().filter(|(what, ..)| row_of(*what).lane == which);
            let bar = |(_, from, until): &(_, f64, f64)| {
                let corners = [(*from, above), (until.max(from + WIDTH_MIN), below)];
                Rectangle::new(corners, colour.filled())
            };
            chart.draw_series(of_it.map(bar))?.label(format!("faults of {name}")).legend(
                move |(x, y)| Rectangle::new([(x, y - 5), (x + 20, y + 5)], colour.filled()),
            );
        }
        let rates = (0_u32..).zip(&figures.per_second);
        let rates = rates.map(|(second, rate)| (f64::from(second) + 0.5, f64::from(*rate)));
        chart.draw_series(LineSeries::new(rates, GRANTS.stroke_width(2)))?;
        chart.configure_series_labels().label_font(FONT).background_style(WHITE.mix(0.8)).draw()?;
        root.present()?;
    }
    Ok(svg)
}
