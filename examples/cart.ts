/** A shopping cart: lines, totals and discounts. Prices are in cents. */

export interface Line {
  sku: string;
  price: number;
  quantity: number;
}

export class Cart {
  private lines = new Map<string, Line>();

  add(sku: string, price: number, quantity = 1): void {
    const line = this.lines.get(sku);
    if (line) {
      line.quantity += quantity;
    } else {
      this.lines.set(sku, { sku, price, quantity });
    }
  }

  /** Takes pieces out of the cart; a line that falls to zero goes. */
  remove(sku: string, quantity = 1): void {
    
  }

  total(): number {
    let sum = 0;
    for (const line of this.lines.values()) {
      sum += line.price * line.quantity;
    }
    return sum;
  }
}
